DELETE FROM replayer.replayer_owned WHERE name = :name AND kind = :kind
