-- A file is a database; its header is written by this.
CHECKPOINT
