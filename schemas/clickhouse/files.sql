-- Every file of the parts in use: a column's data and marks, the index, and what describes the part.
-- Relative to the data folder.  A part does not list its files: those that can be there are named, and
-- those that are not on the disk are left out by whoever reads this.
SELECT concat('clickhouse/', substring(p.path, position(p.path, '/store/') + 1), f.file) AS path
FROM system.parts AS p
CROSS JOIN (
    SELECT arrayJoin(arrayConcat(
        arrayFlatten(arrayMap(
            c -> [concat(c, '.bin'), concat(c, '.cmrk2'), concat(c, '.cmrk4'), concat(c, '.size.bin'), concat(c, '.size.cmrk2')],
            ['n', 'id', 'lastname', 'time']
        )),
        ['data.bin', 'data.cmrk3', 'data.cmrk4', 'primary.cidx', 'primary.idx', 'minmax_n.idx',
         'partition.dat', 'count.txt', 'columns.txt', 'columns_substreams.txt', 'checksums.txt',
         'serialization.json', 'metadata_version.txt', 'default_compression_codec.txt',
         'statistics.packed']
    )) AS file
) AS f
WHERE p.database = 'replayer' AND p.table = 'persons1' AND p.active
