-- What ALTER SYSTEM was given before.
SELECT name, setting AS value
FROM pg_file_settings
WHERE sourcefile ~ '(^|/)postgresql\.auto\.conf$'
