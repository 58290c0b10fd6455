SELECT :segments + 100 AS needed,
       current_setting('max_locks_per_transaction')::bigint
       * (current_setting('max_connections')::int
          + current_setting('max_prepared_transactions')::int) AS available,
       'max_locks_per_transaction' AS setting,
       ceil((:segments + 100)::numeric
            / (current_setting('max_connections')::int
               + current_setting('max_prepared_transactions')::int))::bigint AS value
