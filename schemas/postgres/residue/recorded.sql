-- Whether there is the list of what replayer made.
SELECT to_regclass('replayer.replayer_owned') IS NOT NULL AS recorded
