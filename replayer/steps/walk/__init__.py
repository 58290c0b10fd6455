"""The step `walk`: all files of a table are read whole, without the database, from a cold cache."""
