-- The arrow of a job that a restore took back, and the index by which the rows of
-- ended jobs are found once their bytes have been gone for long enough.
--
-- The history may be long: the new rule takes one instant under the table's lock,
-- the look at the old rows goes on beside inserts, and the index is built beside
-- writes. Each statement is safe to run again.
-- +goose NO TRANSACTION
-- +goose Up

ALTER TABLE app.job_events
    DROP CONSTRAINT IF EXISTS job_events_arrow,
    ADD CONSTRAINT job_events_arrow CHECK ((coalesce(from_status, ''), to_status, cause) IN (
        ('', 'pending', 'submitted'),
        ('pending', 'processing', 'claimed'),
        ('pending', 'failed', 'rejected'),
        ('processing', 'completed', 'finished'),
        ('processing', 'failed', 'failed'),
        ('processing', 'pending', 'retry'),
        ('processing', 'pending', 'handed_back'),
        ('processing', 'pending', 'lease_lost'),
        ('processing', 'pending', 'restored'),
        ('processing', 'failed', 'exhausted'))) NOT VALID;

ALTER TABLE app.job_events
    VALIDATE CONSTRAINT job_events_arrow;

CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_records ON app.jobs (purged_at, id) WHERE purged_at IS NOT NULL;
