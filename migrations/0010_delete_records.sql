-- The end of a job's rows, a long time after the end of its bytes.
--
-- The sweeper gets this function and no right to delete from the tables: whatever
-- becomes of its process, it can take no row of a job that has not ended, because
-- the conditions stand here and not in its statement. That the bytes are gone is
-- its own word, by purged_at: whoever took it over could forge that of ended jobs,
-- whose bytes it may delete anyway.
-- +goose Up

-- +goose StatementBegin
CREATE FUNCTION app.delete_records(age interval, most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    ended  uuid[];
    theirs uuid[];
BEGIN
    IF age IS NULL OR age < interval '0' OR most IS NULL OR most NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'delete_records: age must not be negative and most must be 1 to 100000' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Rows that another sweeper holds are its own.
    SELECT array_agg(over.id), array_agg(DISTINCT over.asset_id) INTO ended, theirs
    FROM (SELECT j.id, j.asset_id FROM app.jobs j
          WHERE j.purged_at <= now() - age AND j.status IN ('completed', 'failed') AND j.terminal_at IS NOT NULL
          ORDER BY j.purged_at, j.id LIMIT most FOR UPDATE SKIP LOCKED) AS over;
    IF ended IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM app.idempotency_keys WHERE job_id = ANY (ended);
    DELETE FROM app.job_events WHERE job_id = ANY (ended);
    DELETE FROM app.jobs WHERE id = ANY (ended);
    -- What no job processes any more and whose bytes are gone.
    DELETE FROM app.asset_versions v WHERE v.asset_id = ANY (theirs) AND v.purged_at <= now() - age
        AND NOT EXISTS (SELECT FROM app.jobs j WHERE j.asset_id = v.asset_id AND j.asset_version = v.version);
    DELETE FROM app.assets a WHERE a.id = ANY (theirs)
        AND NOT EXISTS (SELECT FROM app.asset_versions v WHERE v.asset_id = a.id)
        AND NOT EXISTS (SELECT FROM app.jobs j WHERE j.asset_id = a.id);
    RETURN cardinality(ended);
END
$body$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION app.delete_records(interval, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION app.delete_records(interval, integer) TO glovebox_sweeper;
