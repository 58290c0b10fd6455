-- The database of a private server; `prepare` follows, connected to it.
CREATE DATABASE IF NOT EXISTS replayer CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
