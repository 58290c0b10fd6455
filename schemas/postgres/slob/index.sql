-- After the load: built by a sort, it is dense, and the load pays no random insertions.
CREATE INDEX {{table}}_mykey ON {{table}} (mykey)
-- then
COMMENT ON TABLE {{table}} IS '{{rows}} rows, seed {{seed}}'
