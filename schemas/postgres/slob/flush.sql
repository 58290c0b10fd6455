-- What was loaded is written before anything is measured.
CHECKPOINT
