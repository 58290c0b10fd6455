-- At once: a pooler clears a session some time after its client has gone.
SELECT pg_advisory_unlock_all()
