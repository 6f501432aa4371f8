-- The installation's restores, and the pause that each begins with.
-- +goose Up

-- One row for each restore. While a row has no resumed_at the installation is
-- paused: nothing is claimed, submitted or deleted, until an operator has looked
-- and says `resume`, so that nothing runs twice beside a system that still lives.
-- Without completed_at the restore broke off, and nothing may begin on it at all.
CREATE TABLE app.restores (
    id            uuid        PRIMARY KEY,
    backup_id     uuid        NOT NULL,
    backup_at     timestamptz NOT NULL, -- the instant that the installation was set back to
    started_at    timestamptz NOT NULL DEFAULT now(),
    completed_at  timestamptz,
    -- The fencing token that every job that was not ended went on from: above any
    -- token that the system which was lost can have given out.
    token_base    bigint      CONSTRAINT restores_token_base CHECK (token_base > 0),
    jobs_taken_back bigint    CONSTRAINT restores_jobs_taken_back CHECK (jobs_taken_back >= 0),
    resumed_at    timestamptz,
    CONSTRAINT restores_completed_is_whole CHECK (num_nonnulls(completed_at, token_base, jobs_taken_back) IN (0, 3)),
    CONSTRAINT restores_resumed_is_completed CHECK (resumed_at IS NULL OR completed_at IS NOT NULL)
);

-- The lowest schema version that a binary may carry and still work here: raised by
-- a migration that removes what older binaries use. Binaries look at it when they
-- start and in /ready.
CREATE TABLE app.compatibility (
    singleton     boolean PRIMARY KEY DEFAULT true CONSTRAINT compatibility_one_row CHECK (singleton),
    oldest_binary bigint  NOT NULL CONSTRAINT compatibility_oldest CHECK (oldest_binary >= 0)
);
INSERT INTO app.compatibility (oldest_binary) VALUES (0);

GRANT SELECT ON app.restores, app.compatibility TO glovebox_server, glovebox_operator;
GRANT UPDATE (resumed_at) ON app.restores TO glovebox_operator;
GRANT SELECT (id, resumed_at) ON app.restores TO glovebox_sweeper;
GRANT SELECT ON app.compatibility TO glovebox_sweeper;
