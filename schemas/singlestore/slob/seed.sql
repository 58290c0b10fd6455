-- RAND() of a procedure cannot be started anew for a session: the keys differ from run to run.
SELECT :seed AS seed
