-- Assets, their versions, jobs. The CHECKs make the invariants of the state
-- machine a property of the table: what the code must not do, it cannot store.
-- +goose Up

CREATE TABLE app.assets (
    id              uuid        PRIMARY KEY,
    user_id         uuid        NOT NULL REFERENCES app.users,
    current_version integer     NOT NULL DEFAULT 1 CONSTRAINT assets_current_version CHECK (current_version >= 1),
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (id, user_id)
);
CREATE INDEX assets_by_user ON app.assets (user_id, created_at);

-- One immutable content (PIP-06). The name is a label: it is never a path.
CREATE TABLE app.asset_versions (
    asset_id    uuid        NOT NULL REFERENCES app.assets,
    version     integer     NOT NULL CONSTRAINT asset_versions_version CHECK (version >= 1),
    name        text        NOT NULL CONSTRAINT asset_versions_name CHECK (octet_length(name) <= 1024),
    size        bigint      NOT NULL CONSTRAINT asset_versions_size CHECK (size >= 0),
    sha256      bytea       NOT NULL CONSTRAINT asset_versions_sha256 CHECK (octet_length(sha256) = 32),
    storage_key text        NOT NULL UNIQUE CONSTRAINT asset_versions_key CHECK (storage_key ~ '^input/[0-9a-z][0-9a-z./-]{0,198}$'),
    uploaded_at timestamptz NOT NULL DEFAULT now(),
    purged_at   timestamptz,
    PRIMARY KEY (asset_id, version)
);

CREATE TABLE app.jobs (
    id               uuid        PRIMARY KEY,
    user_id          uuid        NOT NULL REFERENCES app.users,
    asset_id         uuid        NOT NULL,
    asset_version    integer     NOT NULL,
    -- Of the input, kept here too so that a user's stored bytes are one index-only sum.
    input_size       bigint      NOT NULL CONSTRAINT jobs_input_size CHECK (input_size >= 0),
    status           text        NOT NULL CONSTRAINT jobs_status CHECK (status IN ('pending', 'processing', 'completed', 'failed')),
    attempt          integer     NOT NULL DEFAULT 0,
    max_attempts     integer     NOT NULL CONSTRAINT jobs_max_attempts CHECK (max_attempts BETWEEN 1 AND 100),
    hand_backs       integer     NOT NULL DEFAULT 0 CONSTRAINT jobs_hand_backs CHECK (hand_backs BETWEEN 0 AND 10),
    fencing_token    bigint      NOT NULL DEFAULT 0,
    -- No foreign key: the allow-list is judged by each request, and a share lock
    -- on the worker's row for every claim would make that row a bottleneck.
    worker_id        text,
    lease_expires_at timestamptz,
    heartbeat_at     timestamptz,
    next_attempt_at  timestamptz NOT NULL DEFAULT now(),
    fair_key         bigint      NOT NULL CONSTRAINT jobs_fair_key CHECK (fair_key >= 1),
    error_code       text        CONSTRAINT jobs_error_code CHECK (error_code IN (
        'invalid_input', 'output_too_large', 'output_invalid', 'out_of_memory', 'core_error', 'core_crashed',
        'core_forbidden_call', 'timeout', 'sandbox_failure', 'worker_shutdown', 'worker_lost', 'attempts_exhausted',
        'rejected_unsupported_type', 'rejected_too_large', 'rejected_malicious_content')),
    error_retryable  boolean,
    error_detail     text        CONSTRAINT jobs_error_detail CHECK (octet_length(error_detail) <= 1024),
    result_key           text    UNIQUE CONSTRAINT jobs_result_key CHECK (result_key ~ '^result/[0-9a-z][0-9a-z./-]{0,198}$'),
    result_size          bigint  CONSTRAINT jobs_result_size CHECK (result_size >= 0),
    result_sha256        bytea   CONSTRAINT jobs_result_sha256 CHECK (octet_length(result_sha256) = 32),
    result_worker_id     text,
    result_fencing_token bigint,
    correlation_id   text        NOT NULL DEFAULT '' CONSTRAINT jobs_correlation_id CHECK (octet_length(correlation_id) <= 128),
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    terminal_at      timestamptz,
    purged_at        timestamptz,

    FOREIGN KEY (asset_id, user_id) REFERENCES app.assets (id, user_id),
    FOREIGN KEY (asset_id, asset_version) REFERENCES app.asset_versions (asset_id, version),
    CONSTRAINT jobs_one_for_a_version UNIQUE (asset_id, asset_version),
    CONSTRAINT jobs_attempts CHECK (attempt BETWEEN 0 AND max_attempts),
    -- Every claim raises both, a hand-back gives only the attempt back.
    CONSTRAINT jobs_token_counts_claims CHECK (fencing_token >= attempt + hand_backs),
    -- JOB-06: processing means assigned, and nothing else is.
    CONSTRAINT jobs_processing_is_assigned CHECK (
        num_nonnulls(worker_id, lease_expires_at, heartbeat_at) = CASE status WHEN 'processing' THEN 3 ELSE 0 END
        AND (status <> 'processing' OR attempt >= 1)),
    -- JOB-05: completed means that the result is known whole.
    CONSTRAINT jobs_completed_has_result CHECK (
        num_nonnulls(result_key, result_size, result_sha256, result_worker_id, result_fencing_token)
        = CASE status WHEN 'completed' THEN 5 ELSE 0 END),
    CONSTRAINT jobs_result_is_of_last_claim CHECK (result_fencing_token = fencing_token),
    CONSTRAINT jobs_error_is_whole CHECK (
        num_nonnulls(error_code, error_retryable) IN (0, 2)
        AND (error_detail IS NULL OR error_code IS NOT NULL)
        AND (status <> 'failed' OR error_code IS NOT NULL)
        AND (status <> 'completed' OR error_code IS NULL)),
    CONSTRAINT jobs_terminal_has_time CHECK ((terminal_at IS NOT NULL) = (status IN ('completed', 'failed'))),
    CONSTRAINT jobs_purged_is_terminal CHECK (purged_at IS NULL OR terminal_at IS NOT NULL)
) WITH (
    fillfactor = 80,
    -- Dead index entries of the pending part are what slows a claim.
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
);

-- A claim is the first step of this index, however many jobs are finished.
CREATE INDEX jobs_pending ON app.jobs (fair_key, id) WHERE status = 'pending';
CREATE INDEX jobs_processing ON app.jobs (lease_expires_at, id) WHERE status = 'processing';
-- A user's live jobs and kept bytes, counted under the lock on user_counters.
CREATE INDEX jobs_live_of_user ON app.jobs (user_id) WHERE status IN ('pending', 'processing');
CREATE INDEX jobs_kept_of_user ON app.jobs (user_id) INCLUDE (input_size, result_size) WHERE purged_at IS NULL;
CREATE INDEX jobs_to_purge ON app.jobs (terminal_at, id) WHERE terminal_at IS NOT NULL AND purged_at IS NULL;

GRANT SELECT, INSERT ON app.assets, app.asset_versions, app.jobs TO glovebox_server;
-- Column by column: the owner, the asset and the fairness key never change (JOB-13).
GRANT UPDATE (status, attempt, hand_backs, fencing_token, worker_id, lease_expires_at, heartbeat_at, next_attempt_at,
              error_code, error_retryable, error_detail, result_key, result_size, result_sha256, result_worker_id,
              result_fencing_token, updated_at, terminal_at) ON app.jobs TO glovebox_server;

GRANT SELECT ON app.assets, app.asset_versions, app.jobs TO glovebox_operator;

-- The sweeper marks bytes as gone; it moves no job.
GRANT SELECT (id, asset_id, asset_version, status, result_key, terminal_at, purged_at) ON app.jobs TO glovebox_sweeper;
GRANT UPDATE (purged_at) ON app.jobs TO glovebox_sweeper;
GRANT SELECT (asset_id, version, storage_key, purged_at) ON app.asset_versions TO glovebox_sweeper;
GRANT UPDATE (purged_at) ON app.asset_versions TO glovebox_sweeper;
