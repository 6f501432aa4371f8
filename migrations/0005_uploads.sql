-- What is being received now, and what a repeated request is recognised by.
-- +goose Up

-- One row for each body a server is reading: it holds one of the user's upload
-- slots, and the Idempotency-Key where there is one. The server that reads it
-- renews heartbeat_at; a row that is not renewed belongs to a dead server and
-- frees its slot and its key by itself (UPL-03, API-04).
CREATE TABLE app.uploads_in_flight (
    id           uuid        PRIMARY KEY,
    user_id      uuid        NOT NULL REFERENCES app.users,
    started_at   timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    -- The body's size once it is here whole: from then on it counts against the
    -- user's limits, so that bytes get their name only when their job will be taken.
    reserved_bytes bigint CONSTRAINT uploads_in_flight_reserved CHECK (reserved_bytes >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);
CREATE INDEX uploads_in_flight_by_user ON app.uploads_in_flight (user_id, heartbeat_at);

CREATE TABLE app.idempotency_keys (
    user_id     uuid        NOT NULL REFERENCES app.users,
    key         text        NOT NULL CONSTRAINT idempotency_keys_key CHECK (octet_length(key) BETWEEN 1 AND 255),
    -- The upload that holds the key while it is in flight. No foreign key: the
    -- upload's row may die first, which is how a key frees itself.
    upload_id   uuid        NOT NULL,
    -- SHA-256 of the file's bytes and the canonical fields: known from the start
    -- where the client declared its digest, else when the bytes have come.
    fingerprint bytea       CONSTRAINT idempotency_keys_fingerprint CHECK (octet_length(fingerprint) = 32),
    job_id      uuid        UNIQUE REFERENCES app.jobs,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, key),
    CONSTRAINT idempotency_keys_answered_is_known CHECK (job_id IS NULL OR fingerprint IS NOT NULL)
);
CREATE INDEX idempotency_keys_by_age ON app.idempotency_keys (created_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON app.uploads_in_flight, app.idempotency_keys TO glovebox_server;
GRANT SELECT (id, heartbeat_at), DELETE ON app.uploads_in_flight TO glovebox_sweeper;
GRANT SELECT (user_id, key, created_at), DELETE ON app.idempotency_keys TO glovebox_sweeper;
