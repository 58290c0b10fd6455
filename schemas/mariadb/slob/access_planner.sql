-- As pgio: the optimizer chooses for every statement.
SET @replayer_access = 'planner'
