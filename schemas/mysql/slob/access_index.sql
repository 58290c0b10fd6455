-- include slob/access_index
-- then
-- Rows in the order of their keys, one after the other, and not gathered and read in that of the file.
SET SESSION optimizer_switch = 'mrr=off'
