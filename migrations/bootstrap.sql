-- What must stand before the first migration: roles, database-level rights, the
-- two schemas. Run by an administrator, in the target database, as often as one
-- likes: every statement leaves an existing state alone. It is no numbered
-- migration because none of it travels with a dump of the database, so a restore
-- runs it again (DBS-02, DBS-03).
--
-- Roles belong to the cluster. They are made without a password; how each logs in
-- is the administrator's choice (`glovebox-server migrate set-password`, peer, certificate).

DO $roles$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN
        SELECT * FROM (VALUES
            ('glovebox_owner',    'NOLOGIN NOINHERIT'),
            ('glovebox_migrator', 'LOGIN NOINHERIT'),
            ('glovebox_server',   'LOGIN NOINHERIT'),
            ('glovebox_operator', 'LOGIN NOINHERIT'),
            ('glovebox_sweeper',  'LOGIN NOINHERIT'),
            ('glovebox_observer', 'LOGIN NOINHERIT'),
            ('glovebox_backup',   'LOGIN NOINHERIT')
        ) AS roles (name, options)
    LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted.name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I %s NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS',
                               wanted.name, wanted.options);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this cluster was set up at the same moment
            END;
        END IF;
    END LOOP;
    -- The migrator owns nothing: it must SET ROLE, which a stray statement does not.
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_auth_members m
        JOIN pg_catalog.pg_roles granted ON granted.oid = m.roleid AND granted.rolname = 'glovebox_owner'
        JOIN pg_catalog.pg_roles member ON member.oid = m.member AND member.rolname = 'glovebox_migrator'
    ) THEN
        BEGIN
            GRANT glovebox_owner TO glovebox_migrator;
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END IF;
END
$roles$;

DO $database$
DECLARE
    name text := current_database();
    role text;
BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', name);
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO glovebox_migrator, glovebox_server, glovebox_operator, glovebox_sweeper, glovebox_observer, glovebox_backup', name);

    -- A transaction that somebody forgot keeps dead rows alive and halves the
    -- queue within seconds: no role of ours may hold one open.
    FOREACH role IN ARRAY ARRAY['glovebox_server', 'glovebox_operator', 'glovebox_sweeper', 'glovebox_observer'] LOOP
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET statement_timeout = ''30s''', role, name);
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET lock_timeout = ''10s''', role, name);
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET idle_in_transaction_session_timeout = ''30s''', role, name);
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET search_path = ''app''', role, name);
    END LOOP;
    -- A migration may work for long, but never waits for long: it would queue
    -- every later statement behind itself.
    EXECUTE format('ALTER ROLE glovebox_migrator IN DATABASE %I SET lock_timeout = ''10s''', name);
    EXECUTE format('ALTER ROLE glovebox_migrator IN DATABASE %I SET idle_in_transaction_session_timeout = ''5min''', name);
    -- A dump takes as long as it takes; it never waits for long, and writes nothing.
    EXECUTE format('ALTER ROLE glovebox_backup IN DATABASE %I SET lock_timeout = ''10s''', name);
    EXECUTE format('ALTER ROLE glovebox_backup IN DATABASE %I SET idle_in_transaction_session_timeout = ''12h''', name);
    EXECUTE format('ALTER ROLE glovebox_backup IN DATABASE %I SET default_transaction_read_only = ''on''', name);
    EXECUTE format('ALTER ROLE glovebox_observer IN DATABASE %I SET search_path = ''observe''', name);
    EXECUTE format('ALTER ROLE glovebox_observer IN DATABASE %I SET default_transaction_read_only = ''on''', name);
END
$database$;

CREATE SCHEMA IF NOT EXISTS app AUTHORIZATION glovebox_owner;
CREATE SCHEMA IF NOT EXISTS observe AUTHORIZATION glovebox_owner;
REVOKE ALL ON SCHEMA app, observe FROM PUBLIC;
GRANT USAGE ON SCHEMA app TO glovebox_server, glovebox_operator, glovebox_sweeper;
GRANT USAGE ON SCHEMA observe TO glovebox_observer;

-- A backup reads everything of ours, the tables to come too, and nothing of a
-- neighbour in this cluster: pg_read_all_data would reach every database.
GRANT USAGE ON SCHEMA app, observe TO glovebox_backup;
GRANT SELECT ON ALL TABLES IN SCHEMA app, observe TO glovebox_backup;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA app, observe TO glovebox_backup;
ALTER DEFAULT PRIVILEGES FOR ROLE glovebox_owner IN SCHEMA app, observe GRANT SELECT ON TABLES TO glovebox_backup;
ALTER DEFAULT PRIVILEGES FOR ROLE glovebox_owner IN SCHEMA app, observe GRANT SELECT ON SEQUENCES TO glovebox_backup;

-- Nothing of ours is in public. It goes where it is empty, and is closed where
-- an extension or a neighbour lives in it.
DO $public$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public') THEN
        BEGIN
            DROP SCHEMA public;
        EXCEPTION WHEN dependent_objects_still_exist THEN
            REVOKE ALL ON SCHEMA public FROM PUBLIC;
        END;
    END IF;
END
$public$;
