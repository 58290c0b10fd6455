-- The server's own folder, and the file in it that has the server's id.  UNVERIFIED on a server: that the
-- file `status` has the process after `PID:`.
SELECT path AS directory, 'uuid' AS file, toString(serverUUID()) AS content,
       NULL AS process, 'status' AS pid_file
FROM system.disks
WHERE name = 'default'
