-- No counter of updated rows is known here, so none is told.
SELECT 0 AS updated, 0 AS hot
