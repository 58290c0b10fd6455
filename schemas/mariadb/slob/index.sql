-- After the load: built by a sort, it is dense, and the load pays no random insertions.  The comment
-- comes in the same statement: it says that the load came to its end.
ALTER TABLE {{table}} ADD INDEX mykey (mykey), COMMENT = '{{rows}} rows, seed {{seed}}'
