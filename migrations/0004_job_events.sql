-- The history of jobs: one row for each transition, never changed.
-- +goose Up

CREATE TABLE app.job_events (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id         uuid        NOT NULL REFERENCES app.jobs,
    from_status    text        CONSTRAINT job_events_from CHECK (from_status IN ('pending', 'processing')),
    to_status      text        NOT NULL CONSTRAINT job_events_to CHECK (to_status IN ('pending', 'processing', 'completed', 'failed')),
    cause          text        NOT NULL,
    attempt        integer     NOT NULL CONSTRAINT job_events_attempt CHECK (attempt >= 0),
    fencing_token  bigint      NOT NULL CONSTRAINT job_events_token CHECK (fencing_token >= 0),
    worker_id      text,
    error_code     text,
    request_id     uuid,
    correlation_id text        NOT NULL DEFAULT '' CONSTRAINT job_events_correlation_id CHECK (octet_length(correlation_id) <= 128),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- JOB-01: these arrows and no other.
    CONSTRAINT job_events_arrow CHECK ((coalesce(from_status, ''), to_status, cause) IN (
        ('', 'pending', 'submitted'),
        ('pending', 'processing', 'claimed'),
        ('pending', 'failed', 'rejected'),
        ('processing', 'completed', 'finished'),
        ('processing', 'failed', 'failed'),
        ('processing', 'pending', 'retry'),
        ('processing', 'pending', 'handed_back'),
        ('processing', 'pending', 'lease_lost'),
        ('processing', 'failed', 'exhausted'))),
    CONSTRAINT job_events_request_is_of_claim CHECK (request_id IS NULL OR cause = 'claimed')
);
CREATE INDEX job_events_by_job ON app.job_events (job_id, id);
-- JOB-04: a claim request leads to one assignment, however often it is sent.
CREATE UNIQUE INDEX job_events_claim_request ON app.job_events (worker_id, request_id) WHERE cause = 'claimed';
-- Each claim opens one attempt, and one thing ends it.
CREATE UNIQUE INDEX job_events_one_claim ON app.job_events (job_id, fencing_token) WHERE cause = 'claimed';
CREATE UNIQUE INDEX job_events_one_end ON app.job_events (job_id, fencing_token) WHERE from_status = 'processing';

-- Insert-only, said aloud: a default privilege set elsewhere must not widen it.
REVOKE ALL ON app.job_events FROM glovebox_server, glovebox_operator, glovebox_sweeper, glovebox_observer;
GRANT SELECT, INSERT ON app.job_events TO glovebox_server;
GRANT SELECT ON app.job_events TO glovebox_operator;
