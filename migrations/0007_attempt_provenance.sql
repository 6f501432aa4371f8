-- What a worker said of the run it reports, beside the event that its report led
-- to. The server keeps it as text and reads nothing in it (ARC-08).
--
-- The history may be long: the column and its rules for new rows take one instant
-- under the table's lock, the look at the old rows goes on beside inserts. That
-- needs two transactions, so each statement is safe to run again.
-- +goose NO TRANSACTION
-- +goose Up

ALTER TABLE app.job_events
    ADD COLUMN IF NOT EXISTS provenance text,
    DROP CONSTRAINT IF EXISTS job_events_provenance,
    ADD CONSTRAINT job_events_provenance CHECK (octet_length(provenance) BETWEEN 1 AND 512) NOT VALID,
    DROP CONSTRAINT IF EXISTS job_events_provenance_is_of_report,
    ADD CONSTRAINT job_events_provenance_is_of_report CHECK (
        provenance IS NULL OR cause IN ('finished', 'failed', 'retry', 'handed_back')) NOT VALID;

ALTER TABLE app.job_events
    VALIDATE CONSTRAINT job_events_provenance,
    VALIDATE CONSTRAINT job_events_provenance_is_of_report;
