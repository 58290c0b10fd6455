-- Where the development image has its nodes, and the name of one of them, which no other server has.
-- UNVERIFIED: @@memsql_id, and that the file holds nothing else.
SELECT '/data/master/data' AS directory,
       'memsql_id' AS file,
       CONCAT(@@memsql_id) AS content,
       NULL AS process
