-- The allow-list of workers (MTL-02): an id from a certificate counts only while
-- its row is here and not removed.
-- +goose Up

CREATE TABLE app.workers (
    id           text        PRIMARY KEY
        CONSTRAINT workers_id_form CHECK (id ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    added_at     timestamptz NOT NULL DEFAULT now(),
    removed_at   timestamptz,
    allowed      boolean     NOT NULL GENERATED ALWAYS AS (removed_at IS NULL) STORED,
    last_seen_at timestamptz,
    slots_free   integer,
    slots_total  integer,
    CONSTRAINT workers_slots CHECK (
        num_nonnulls(last_seen_at, slots_free, slots_total) IN (0, 3)
        AND (slots_total IS NULL OR (slots_total >= 0 AND slots_free BETWEEN 0 AND slots_total)))
) WITH (fillfactor = 50);

-- The serving process notes what a worker says of itself; it admits nobody.
GRANT SELECT ON app.workers TO glovebox_server;
GRANT UPDATE (last_seen_at, slots_free, slots_total) ON app.workers TO glovebox_server;
GRANT SELECT, INSERT ON app.workers TO glovebox_operator;
GRANT UPDATE (added_at, removed_at) ON app.workers TO glovebox_operator;
