"""The step `probe`: measures storage, processors or memory of the machine without a database."""
