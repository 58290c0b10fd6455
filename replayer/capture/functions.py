"""Names of SQL functions that change no table; a SELECT of any other function may change tables.

sqlglot knows most functions of the SQL standard.  Listed here are functions of servers that sqlglot
does not know.  nextval is one of them: it changes no row, and a replay treats it separately.
"""

_BEGINNINGS = (
    *("pg_", "json", "array_", "to_", "regexp_", "string_", "date_", "inet_", "ts_", "st_"),
    *("xml", "txid_", "quote_", "has_", "current_", "is_", "bit_", "ascii", "unix_", "uuid"),
    *(
        "host",
        "network",
        "range_",
        "percentile_",
        "row_",
        "width_",
        "utc_",
        "sha",
        "md5",
        "convert",
    ),
    *("plainto_", "phraseto_", "websearch_", "setweight", "octet_", "char_", "character_"),
    *("format", "text", "time", "num", "width", "word_", "make_", "gen_random", "parse_", "age"),
)
_CHANGING = ("pg_import", "pg_restore", "pg_replication", "pg_logical", "pg_create", "pg_drop")
_LISTED = """
    nextval currval lastval setval version now clock_timestamp statement_timestamp
    transaction_timestamp timeofday random setseed sleep benchmark coalesce nullif greatest least
    abs ceil ceiling floor round trunc mod power sqrt exp ln log sign div gcd lcm degrees radians
    sin cos tan asin acos atan atan2 cot pi cbrt factorial scale min_scale trim_scale
    upper lower initcap length substr substring left right lpad rpad ltrim rtrim btrim replace
    translate reverse repeat position strpos split_part overlay concat concat_ws chr ord hex unhex
    encode decode crc32 starts_with similarity show_trgm unaccent levenshtein soundex metaphone
    cardinality unnest generate_series generate_subscripts isempty lower_inc upper_inc lower_inf
    upper_inf isfinite justify_days justify_hours justify_interval extract
    count sum avg min max stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop
    covar_samp every bool_and bool_or mode rank dense_rank cume_dist ntile lag lead first_value
    last_value nth_value grouping any_value group_concat
    inet abbrev broadcast family masklen netmask set_masklen hostmask macaddr8_set7bit
    obj_description col_description shobj_description oid regclass regtype regproc regprocedure
    regrole regnamespace format_type set_config tsvector_to_array tsvector_length numnode querytree
    strip ranking point box circle polygon path lseg line area center diameter height isclosed
    isopen npoints pclose popen radius slope hstore akeys avals skeys svals each delete slice
    exist defined populate_record if ifnull field find_in_set elt insert instr locate mid space
    strcmp truncate adddate addtime curdate curtime datediff day dayname dayofmonth dayofweek
    dayofyear from_days from_unixtime hour last_day makedate maketime microsecond minute month
    monthname period_add period_diff quarter sec_to_time second str_to_date subdate subtime sysdate
    timediff weekday week weekofyear year yearweek aes_encrypt aes_decrypt compress uncompress
    database schema user session_user system_user current_user connection_id found_rows row_count
    last_insert_id charset collation coercibility get_lock release_lock release_all_locks
    is_free_lock is_used_lock name_const any_value default values bin oct conv rand row
"""
_NAMES = frozenset(_LISTED.split())


def changes_nothing(name: str) -> bool:
    """Return whether the SQL function `name` is known to leave every table unchanged.

    Case and double quotes do not matter.  False also stands for a function that is not known.
    """
    plain = name.lower().strip('"')
    if plain in _NAMES:
        return True
    return plain.startswith(_BEGINNINGS) and not plain.startswith(_CHANGING)
