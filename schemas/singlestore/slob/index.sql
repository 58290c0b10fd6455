-- The sort key is the index.  The mark says that the load came to its end.
UPDATE replayer_owned SET made_by = '{{rows}} rows, seed {{seed}}' WHERE name = '{{table}}'
