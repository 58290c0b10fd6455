-- All new segments become part of the table in one transaction.
DO $do$
DECLARE
    new record;
BEGIN
    FOR new IN
        SELECT segment FROM persons1_segments WHERE doubling = {{doubling}} ORDER BY segment
    LOOP
        EXECUTE format('ALTER TABLE persons1_s%s INHERIT persons1', new.segment);
    END LOOP;
END
$do$
