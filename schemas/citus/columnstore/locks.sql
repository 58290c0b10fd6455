SELECT cast(:segments AS bigint) + 100 AS needed,
       current_setting('max_locks_per_transaction')::bigint
       * (current_setting('max_connections')::int
          + current_setting('max_prepared_transactions')::int) AS available,
       'max_locks_per_transaction' AS setting,
       ceil((cast(:segments AS bigint) + 100)::numeric
            / (current_setting('max_connections')::int
               + current_setting('max_prepared_transactions')::int))::bigint AS value
