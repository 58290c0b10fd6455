-- A session's name says who holds it, and the server asks its host for a sign of life: within 15 s of
-- a cut network the session ends, and the lock with it, instead of after the kernel's two hours.
SELECT set_config('application_name', :holder, false),
       set_config('tcp_keepalives_idle', '5', false),
       set_config('tcp_keepalives_interval', '5', false),
       set_config('tcp_keepalives_count', '2', false),
       set_config('tcp_user_timeout', '15000', false)
-- then
