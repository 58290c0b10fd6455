-- From here on random() gives this session the same numbers in every run.
SELECT setseed(:seed)
