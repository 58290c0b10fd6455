ANALYZE TABLE {{table}}
