-- What an observer may see: states and histories, no user, no name, no digest, no key.
-- +goose Up

CREATE VIEW observe.jobs AS
SELECT id, status, worker_id, lease_expires_at, attempt, max_attempts, fencing_token,
       error_code, error_retryable, created_at, updated_at
FROM app.jobs;

CREATE VIEW observe.job_events AS
SELECT job_id, from_status, to_status, attempt, fencing_token, worker_id, cause, at
FROM app.job_events;

CREATE VIEW observe.assets AS
SELECT j.asset_id AS id,
       j.asset_version AS version,
       CASE j.status
           WHEN 'pending' THEN 'QUEUED'
           WHEN 'processing' THEN 'PROCESSING'
           WHEN 'completed' THEN 'SUCCEEDED'
           WHEN 'failed' THEN CASE WHEN j.error_code LIKE 'rejected\_%' THEN 'REJECTED' ELSE 'FAILED' END
       END AS state,
       j.id AS job_id,
       CASE j.status WHEN 'failed' THEN upper(j.error_code) END AS reason
FROM app.jobs j;

GRANT SELECT ON observe.jobs, observe.job_events, observe.assets TO glovebox_observer;
