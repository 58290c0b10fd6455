-- The roles that this user may take on.
SELECT rolname AS name FROM pg_roles WHERE pg_has_role(current_user, oid, 'SET')
