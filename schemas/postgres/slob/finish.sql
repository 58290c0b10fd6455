-- Without FREEZE the first reading run would write hint bits.
VACUUM (FREEZE, ANALYZE) {{table}}
