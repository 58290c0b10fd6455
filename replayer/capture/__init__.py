"""What databases really executed: their logs, made into one file that can be replayed.

A log's entries become actions (`action`), which are written to and read from a file (`archive`)
with what each statement is (`fingerprint`) and what it has to wait for (`ordering`).
"""
