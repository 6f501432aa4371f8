-- Users, their tokens, the counters of failed logins.
-- +goose Up

-- The migrator's own book-keeping; /ready and check read it.
GRANT SELECT ON app.schema_versions TO glovebox_server, glovebox_operator, glovebox_sweeper;

CREATE TABLE app.users (
    id                  uuid        PRIMARY KEY,
    login               text        NOT NULL UNIQUE
        CONSTRAINT users_login_folded CHECK (login = lower(login) AND login ~ '^[a-z0-9][a-z0-9._@+-]{0,63}$'),
    password_hash       text        NOT NULL
        CONSTRAINT users_password_is_argon2id CHECK (password_hash LIKE '$argon2id$%' AND octet_length(password_hash) <= 512),
    created_at          timestamptz NOT NULL DEFAULT now(),
    password_changed_at timestamptz NOT NULL DEFAULT now(),
    disabled_at         timestamptz
);

-- One row a user, locked while a limit is counted or a fairness key is given, so
-- that both hold across servers (UPL-03, UPL-10). It stands apart from users so
-- that a busy counter does not rewrite the row that every login reads.
CREATE TABLE app.user_counters (
    user_id  uuid   PRIMARY KEY REFERENCES app.users,
    fair_key bigint NOT NULL DEFAULT 0 CONSTRAINT user_counters_fair_key CHECK (fair_key >= 0)
) WITH (fillfactor = 50);

-- AUT-03: the hash only; the token itself is nowhere.
CREATE TABLE app.tokens (
    token_hash bytea       PRIMARY KEY CONSTRAINT tokens_hash_is_sha256 CHECK (octet_length(token_hash) = 32),
    id         uuid        NOT NULL UNIQUE, -- what an operator names; no credential
    user_id    uuid        NOT NULL REFERENCES app.users,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT tokens_expire_later CHECK (expires_at > created_at)
);
CREATE INDEX tokens_by_user ON app.tokens (user_id, created_at);
CREATE INDEX tokens_by_expiry ON app.tokens (expires_at);

-- AUT-05: one row for a subject and window, counted by INSERT ... ON CONFLICT DO
-- UPDATE, so that several servers share one count. The subject is an address, or
-- a digest of the login as typed (its length is the attacker's choice).
CREATE TABLE app.login_attempts (
    scope        text        NOT NULL CONSTRAINT login_attempts_scope CHECK (scope IN ('address', 'login', 'all')),
    subject      text        NOT NULL CONSTRAINT login_attempts_subject CHECK (octet_length(subject) BETWEEN 1 AND 128),
    window_start timestamptz NOT NULL,
    attempts     integer     NOT NULL DEFAULT 0 CONSTRAINT login_attempts_attempts CHECK (attempts >= 0),
    failures     integer     NOT NULL DEFAULT 0 CONSTRAINT login_attempts_failures CHECK (failures >= 0),
    PRIMARY KEY (scope, subject, window_start)
) WITH (fillfactor = 70);
CREATE INDEX login_attempts_by_age ON app.login_attempts (window_start);

-- The serving process reads users and may raise a hash's parameters; it makes no
-- user and changes no login.
GRANT SELECT ON app.users TO glovebox_server;
GRANT UPDATE (password_hash) ON app.users TO glovebox_server;
GRANT SELECT, INSERT, UPDATE ON app.user_counters TO glovebox_server;
GRANT SELECT, INSERT ON app.tokens TO glovebox_server;
GRANT UPDATE (revoked_at) ON app.tokens TO glovebox_server;
GRANT SELECT, INSERT, UPDATE ON app.login_attempts TO glovebox_server;

GRANT SELECT, INSERT ON app.users TO glovebox_operator;
GRANT UPDATE (password_hash, password_changed_at, disabled_at) ON app.users TO glovebox_operator;
GRANT SELECT, INSERT ON app.tokens TO glovebox_operator;
GRANT UPDATE (revoked_at) ON app.tokens TO glovebox_operator;

-- The sweeper deletes what is over and reads no hash.
GRANT SELECT (id, expires_at, revoked_at), DELETE ON app.tokens TO glovebox_sweeper;
GRANT SELECT (scope, subject, window_start), DELETE ON app.login_attempts TO glovebox_sweeper;
