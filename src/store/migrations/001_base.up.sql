-- The store of a team: sessions, events, documents, hubs, runs.
--
-- Owners. Every row belongs to the role that wrote it, and no other role sees it (row-level security).
-- A team is a role of its own: its hubs connect with "options=-crole%3Dteam", or as that role.
--
-- Numbers. `seq` counts the events of a session and `id` all events of an owner; both are given out
-- under a row lock that is held until the commit. So they have no holes and are seen in their order.
--
-- Fencing. Every write says which hub it comes from and under which epoch. A session that a hub works on
-- (`hub` is not NULL) takes writes of that hub and epoch only.
--
-- Clocks. Leases and times of events are of the server's clock alone.

CREATE SCHEMA IF NOT EXISTS afloat;

CREATE TABLE afloat.hubs (
    owner       name        NOT NULL DEFAULT current_user,
    name        text        NOT NULL,
    identity    text        NOT NULL, -- of its home: two homes cannot share a name
    state       text        NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'draining')),
    labels      text[]      NOT NULL DEFAULT '{}',
    generation  bigint      NOT NULL DEFAULT 0,
    runs        integer     NOT NULL DEFAULT 0,
    epoch       bigint      NOT NULL DEFAULT 0, -- one more with each start
    version     text        NOT NULL DEFAULT '',
    started_at  timestamptz NOT NULL DEFAULT now(),
    seen_at     timestamptz NOT NULL DEFAULT now(),
    lease_until timestamptz NOT NULL DEFAULT now(), -- later than now: the hub lives
    PRIMARY KEY (owner, name)
);

CREATE TABLE afloat.sessions (
    owner      name   NOT NULL DEFAULT current_user,
    id         text   COLLATE "C" NOT NULL,
    dir        text   COLLATE "C" NOT NULL,
    kind       text   COLLATE "C" NOT NULL, -- session, bot, task:PARENT
    state      text   COLLATE "C" NOT NULL,
    title      text   NOT NULL,
    meta       text   NOT NULL,
    started_at bigint NOT NULL, -- milliseconds since 1970, as all times of sessions and events
    updated_at bigint NOT NULL,
    last_seq   bigint NOT NULL DEFAULT 0,
    hub        text,                        -- that works on it; NULL: none does
    epoch      bigint NOT NULL DEFAULT 0,   -- one more with each claim
    token      text   NOT NULL,             -- of the request that made it
    PRIMARY KEY (owner, id)
);
CREATE INDEX sessions_newest ON afloat.sessions (owner, started_at DESC, id DESC);
CREATE INDEX sessions_kind ON afloat.sessions (owner, kind, started_at DESC, id DESC);
CREATE INDEX sessions_state ON afloat.sessions (owner, state, started_at DESC, id DESC);
CREATE UNIQUE INDEX sessions_dir ON afloat.sessions (owner, dir);
CREATE INDEX sessions_hub ON afloat.sessions (owner, hub) WHERE hub IS NOT NULL;
CREATE INDEX sessions_updated ON afloat.sessions (owner, updated_at);

CREATE TABLE afloat.streams ( -- the last `id` of each owner
    owner name   PRIMARY KEY DEFAULT current_user,
    last  bigint NOT NULL DEFAULT 0
);

CREATE TABLE afloat.events (
    owner   name   NOT NULL DEFAULT current_user,
    id      bigint NOT NULL,
    session text   COLLATE "C", -- NULL: of a hub
    seq     bigint,             -- NULL: it is in no journal
    ts      bigint NOT NULL,
    type    text   COLLATE "C" NOT NULL,
    fields  text   NOT NULL, -- members of a JSON object without its braces
    hub     text   NOT NULL,
    token   bigint NOT NULL  -- of the request that wrote it
) PARTITION BY RANGE (ts);
CREATE INDEX events_stream ON afloat.events (owner, id);
CREATE INDEX events_journal ON afloat.events (owner, session, seq) WHERE session IS NOT NULL;
CREATE INDEX events_hubs ON afloat.events (owner, ts) WHERE seq IS NULL;
CREATE TABLE afloat.events_other PARTITION OF afloat.events DEFAULT;

CREATE TABLE afloat.documents (
    owner name   NOT NULL DEFAULT current_user,
    name  text   COLLATE "C" NOT NULL,
    body  text   NOT NULL,
    rev   bigint NOT NULL,
    PRIMARY KEY (owner, name)
);

CREATE TABLE afloat.runs (
    owner       name        NOT NULL DEFAULT current_user,
    id          text        COLLATE "C" NOT NULL,
    project     text        NOT NULL DEFAULT '',
    state       text        NOT NULL DEFAULT 'queued',
    wants       text[]      NOT NULL DEFAULT '{}', -- labels that its hub must have
    working_dir text        NOT NULL DEFAULT '',
    remote      text        NOT NULL DEFAULT '',
    body        text        NOT NULL, -- its document
    queued_at   timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    hub         text, -- that holds it
    lease_until timestamptz,
    epoch       bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, id)
);
CREATE INDEX runs_queue ON afloat.runs (owner, queued_at) WHERE state = 'queued';
CREATE INDEX runs_lease ON afloat.runs (owner, lease_until) WHERE hub IS NOT NULL;

-- ---- small things ----------------------------------------------------------------------------

-- What every write calls is in PL/pgSQL, which keeps its plans. A function in SQL that the planner cannot put into its caller is
-- planned anew in each transaction, which costs a good part of a write.

CREATE FUNCTION afloat.now_ms() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
END $$;

-- Where hubs of this owner listen. A notification says the highest `id`, and nothing else.
CREATE FUNCTION afloat.channel() RETURNS text LANGUAGE sql STABLE AS
$$ SELECT 'afloat_' || left(md5(current_user), 16) $$;

CREATE FUNCTION afloat.refuse(p_state text, p_text text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = p_state, MESSAGE = p_text;
END $$;

-- The transaction that calls this does not wait for the disk. For what loses nothing when the server crashes
-- before it is written: a claim (every write under it waits, and is written behind it), a sign of life.
CREATE FUNCTION afloat.hurry() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- ---- hubs ------------------------------------------------------------------------------------

-- A hub starts: its row, with a new epoch. Another home of the same name is refused while it lives.
CREATE FUNCTION afloat.hub_start(p_name text, p_identity text, p_labels text[], p_version text,
                                 p_lease_s integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    h afloat.hubs;
BEGIN
    INSERT INTO afloat.hubs (name, identity, labels) VALUES (p_name, p_identity, p_labels)
        ON CONFLICT DO NOTHING;
    SELECT * INTO h FROM afloat.hubs WHERE owner = current_user AND name = p_name FOR UPDATE;
    IF h.identity <> p_identity AND h.lease_until > clock_timestamp() THEN
        PERFORM afloat.refuse('AF409', format(
            'another hub named ''%s'' uses this store; set [store] hub_name to a name of its own', p_name));
    END IF;
    UPDATE afloat.hubs SET identity = p_identity, version = p_version, epoch = h.epoch + 1,
            labels = CASE WHEN p_labels = '{}' THEN h.labels ELSE p_labels END, runs = 0,
            started_at = clock_timestamp(), seen_at = clock_timestamp(),
            lease_until = clock_timestamp() + make_interval(secs => p_lease_s)
        WHERE owner = current_user AND name = p_name;
    RETURN h.epoch + 1;
END $$;

-- It lives. False: another process has its name.
CREATE FUNCTION afloat.hub_beat(p_name text, p_epoch bigint, p_lease_s integer) RETURNS boolean
    LANGUAGE sql AS $$
    SELECT afloat.hurry();
    WITH beaten AS (
        UPDATE afloat.hubs SET seen_at = clock_timestamp(),
                lease_until = clock_timestamp() + make_interval(secs => p_lease_s)
            WHERE owner = current_user AND name = p_name AND epoch = p_epoch RETURNING 1)
    SELECT EXISTS (SELECT FROM beaten)
$$;

-- It stops by itself: nobody has to wait for its lease.
CREATE FUNCTION afloat.hub_stop(p_name text, p_epoch bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE afloat.sessions SET hub = NULL WHERE owner = current_user AND hub = p_name
        AND EXISTS (SELECT FROM afloat.hubs h
                    WHERE h.owner = current_user AND h.name = p_name AND h.epoch = p_epoch);
    UPDATE afloat.hubs SET lease_until = clock_timestamp()
        WHERE owner = current_user AND name = p_name AND epoch = p_epoch;
$$;

CREATE FUNCTION afloat.hub_lives(p_name text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM afloat.hubs WHERE owner = current_user AND name = p_name
                   AND lease_until > clock_timestamp());
END $$;

-- ---- sessions --------------------------------------------------------------------------------

CREATE FUNCTION afloat.session_new(p_id text, p_dir text, p_kind text, p_state text, p_title text,
                                   p_meta text, p_started_at bigint, p_token text)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO afloat.sessions (id, dir, kind, state, title, meta, started_at, updated_at, token)
        VALUES (p_id, p_dir, p_kind, p_state, p_title, p_meta, p_started_at, p_started_at, p_token)
        ON CONFLICT DO NOTHING;
    IF NOT EXISTS (SELECT FROM afloat.sessions
                   WHERE owner = current_user AND id = p_id AND token = p_token) THEN
        PERFORM afloat.refuse('AF409', format('session ''%s'' exists already', p_id));
    END IF;
END $$;

-- The row of a session that `p_hub` may write under `p_epoch` (0: it has not claimed it), locked.
CREATE FUNCTION afloat.session_lock(p_id text, p_hub text, p_epoch bigint) RETURNS afloat.sessions
    LANGUAGE plpgsql AS $$
DECLARE
    s afloat.sessions;
BEGIN
    SELECT * INTO s FROM afloat.sessions WHERE owner = current_user AND id = p_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM afloat.refuse('AF404', format('session ''%s'' does not exist', p_id));
    ELSIF s.hub IS NOT NULL AND (s.hub <> p_hub OR s.epoch <> p_epoch) THEN
        PERFORM afloat.refuse('AF409', format('session ''%s'' is running on hub ''%s''', p_id, s.hub));
    ELSIF p_epoch <> 0 AND s.hub IS NULL THEN -- also when the server forgot the claim, and gave its epoch to another hub
        PERFORM afloat.refuse('AF409', format('session ''%s'' was taken over from this hub', p_id));
    END IF;
    RETURN s;
END $$;

CREATE FUNCTION afloat.session_meta(p_id text, p_hub text, p_epoch bigint, p_kind text, p_state text,
                                    p_title text, p_meta text, p_started_at bigint)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM afloat.session_lock(p_id, p_hub, p_epoch);
    UPDATE afloat.sessions SET kind = p_kind, state = p_state, title = p_title, meta = p_meta,
            started_at = p_started_at, updated_at = greatest(updated_at, p_started_at)
        WHERE owner = current_user AND id = p_id;
END $$;

-- The answer is its directory.
CREATE FUNCTION afloat.session_remove(p_id text, p_hub text, p_epoch bigint) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    s afloat.sessions := afloat.session_lock(p_id, p_hub, p_epoch);
BEGIN
    DELETE FROM afloat.events WHERE owner = current_user AND session = p_id;
    DELETE FROM afloat.sessions WHERE owner = current_user AND id = p_id;
    RETURN s.dir;
END $$;

-- Who works on a session? NULL: nobody who lives.
CREATE FUNCTION afloat.session_hub(p_id text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT hub FROM afloat.sessions WHERE owner = current_user AND id = p_id AND afloat.hub_lives(hub)
$$;

-- From now on `p_hub` works on it, and nobody else may write it. The answer is the row, with the new epoch.
CREATE FUNCTION afloat.session_claim(p_id text, p_hub text) RETURNS afloat.sessions
    LANGUAGE plpgsql AS $$
DECLARE
    s afloat.sessions;
BEGIN
    SELECT * INTO s FROM afloat.sessions WHERE owner = current_user AND id = p_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM afloat.refuse('AF404', format('session ''%s'' does not exist', p_id));
    ELSIF s.hub <> p_hub AND afloat.hub_lives(s.hub) THEN
        PERFORM afloat.refuse('AF409', format('session ''%s'' is running on hub ''%s''', p_id, s.hub));
    END IF;
    PERFORM afloat.hurry();
    s.hub := p_hub;
    s.epoch := s.epoch + 1;
    UPDATE afloat.sessions SET hub = s.hub, epoch = s.epoch WHERE owner = current_user AND id = p_id;
    RETURN s;
END $$;

CREATE FUNCTION afloat.session_release(p_id text, p_hub text, p_epoch bigint) RETURNS void
    LANGUAGE sql AS $$
    UPDATE afloat.sessions SET hub = NULL
        WHERE owner = current_user AND id = p_id AND hub = p_hub AND epoch = p_epoch
$$;

-- ---- events ----------------------------------------------------------------------------------

-- The next `p_n` ids of the stream: the last of those before. The lock is held until the commit. The doorbell wakes every
-- hub, the writing one too, and its commit queues behind others of the server; so it rings only if more than one lives.
CREATE FUNCTION afloat.stream_take(p_n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    before bigint;
BEGIN
    UPDATE afloat.streams SET last = last + p_n WHERE owner = current_user
        RETURNING last - p_n INTO before;
    IF NOT FOUND THEN
        INSERT INTO afloat.streams (last) VALUES (0) ON CONFLICT DO NOTHING;
        RETURN afloat.stream_take(p_n);
    END IF;
    IF EXISTS (SELECT FROM afloat.hubs WHERE owner = current_user AND lease_until > clock_timestamp() OFFSET 1) THEN
        PERFORM pg_notify(afloat.channel(), (before + p_n)::text);
    END IF;
    RETURN before;
END $$;

-- Append events to a journal, all or none, and replace the metadata of the session if there are any. A request that comes twice (its answer was lost) is found by
-- its token among the events behind `p_known`, the last that its hub knows of, and not done again.
CREATE FUNCTION afloat.append(p_session text, p_hub text, p_epoch bigint, p_known bigint, p_token bigint,
                              p_types text[], p_fields text[], p_kind text, p_state text, p_title text,
                              p_meta text, p_started_at bigint,
                              OUT first_seq bigint, OUT first_id bigint, OUT at bigint)
    LANGUAGE plpgsql AS $$
DECLARE
    s afloat.sessions;
    n bigint := cardinality(p_types);
BEGIN
    s := afloat.session_lock(p_session, p_hub, p_epoch);
    IF s.last_seq > p_known THEN
        SELECT min(e.seq), min(e.id), min(e.ts) INTO first_seq, first_id, at FROM afloat.events e
            WHERE e.owner = current_user AND e.session = p_session AND e.seq > p_known
            AND e.token = p_token;
        IF first_seq IS NOT NULL THEN
            RETURN;
        END IF;
    ELSIF s.last_seq < p_known THEN -- a copy of the server that was behind took over, or its disk lost them
        PERFORM afloat.refuse('AF409', format('the server has lost events of session ''%s'' after %s; restart the hub to'
            ' continue from there', p_session, s.last_seq));
    END IF;
    first_seq := s.last_seq + 1;
    UPDATE afloat.sessions x SET last_seq = s.last_seq + n, updated_at = greatest(s.started_at, afloat.now_ms()),
            kind = coalesce(p_kind, s.kind), state = coalesce(p_state, s.state),
            title = coalesce(p_title, s.title), meta = coalesce(p_meta, s.meta),
            started_at = coalesce(p_started_at, s.started_at)
        WHERE x.owner = current_user AND x.id = p_session;
    first_id := afloat.stream_take(n) + 1;
    at := afloat.now_ms();
    INSERT INTO afloat.events (id, session, seq, ts, type, fields, hub, token)
        SELECT first_id + i - 1, p_session, first_seq + i - 1, at, t, f, p_hub, p_token
        FROM unnest(p_types, p_fields) WITH ORDINALITY AS x(t, f, i);
END $$;

-- Events of a hub itself, in no journal. `p_known`: the last id that it has seen.
CREATE FUNCTION afloat.emit(p_hub text, p_known bigint, p_token bigint, p_sessions text[],
                            p_types text[], p_fields text[], OUT first_id bigint, OUT at bigint)
    LANGUAGE plpgsql AS $$
BEGIN
    SELECT min(e.id), min(e.ts) INTO first_id, at FROM afloat.events e
        WHERE e.owner = current_user AND e.id > p_known AND e.token = p_token AND e.hub = p_hub;
    IF first_id IS NOT NULL THEN
        RETURN;
    END IF;
    first_id := afloat.stream_take(cardinality(p_types)) + 1;
    at := afloat.now_ms();
    INSERT INTO afloat.events (id, session, ts, type, fields, hub, token)
        SELECT first_id + i - 1, nullif(s, ''), at, t, f, p_hub, p_token
        FROM unnest(p_sessions, p_types, p_fields) WITH ORDINALITY AS x(s, t, f, i);
END $$;

-- ---- documents -------------------------------------------------------------------------------

-- Set one member of a document that is an object; an empty value removes it. Running it twice is harmless.
CREATE FUNCTION afloat.document_set(p_name text, p_key text, p_value text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    d jsonb;
BEGIN
    INSERT INTO afloat.documents (name, body, rev) VALUES (p_name, '{}', 0) ON CONFLICT DO NOTHING;
    SELECT body::jsonb INTO d FROM afloat.documents
        WHERE owner = current_user AND name = p_name FOR UPDATE;
    d := CASE WHEN p_value = '' THEN d - p_key ELSE d || jsonb_build_object(p_key, p_value::jsonb) END;
    UPDATE afloat.documents SET body = d::text, rev = rev + 1
        WHERE owner = current_user AND name = p_name;
END $$;

CREATE FUNCTION afloat.document_put(p_name text, p_body text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO afloat.documents AS d (name, body, rev) VALUES (p_name, p_body, 1)
        ON CONFLICT (owner, name) DO UPDATE SET body = excluded.body, rev = d.rev + 1
$$;

-- ---- partitions ------------------------------------------------------------------------------

CREATE FUNCTION afloat.month_ms(p_month date) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (extract(epoch FROM p_month::timestamp AT TIME ZONE 'UTC') * 1000)::bigint $$;

-- This month's partition of events and the next one's. Hubs have no right to make tables; this has. Events of such a month may
-- be in events_other already, from an import while no hub ran or of a clock that was ahead: they move.
CREATE FUNCTION afloat.partitions_make() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first date := date_trunc('month', now() AT TIME ZONE 'UTC')::date;
    m date;
BEGIN
    PERFORM pg_advisory_xact_lock(7041120231);
    FOREACH m IN ARRAY ARRAY[first, (first + interval '1 month')::date] LOOP
        IF to_regclass('afloat.events_' || to_char(m, 'YYYYMM')) IS NULL THEN
            EXECUTE format('CREATE TABLE afloat.events_%1$s (LIKE afloat.events);'
                ' WITH moved AS (DELETE FROM afloat.events_other WHERE ts >= %2$s AND ts < %3$s RETURNING *)'
                ' INSERT INTO afloat.events_%1$s SELECT * FROM moved;'
                ' ALTER TABLE afloat.events ATTACH PARTITION afloat.events_%1$s FOR VALUES FROM (%2$s) TO (%3$s)',
                to_char(m, 'YYYYMM'), afloat.month_ms(m), afloat.month_ms((m + interval '1 month')::date));
        END IF;
    END LOOP;
END $$;

-- Remove what is older than `p_days`: the asking owner's sessions without an
-- event since, events of hubs, and months that nobody needs any more. The answer is how many sessions went.
CREATE FUNCTION afloat.prune(p_days integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    before bigint := afloat.now_ms() - p_days * 86400000::bigint;
    gone bigint := 0;
    s text;
BEGIN
    FOR s IN SELECT id FROM afloat.sessions WHERE owner = current_user AND updated_at < before
            AND hub IS NULL AND state NOT IN ('running', 'waiting') ORDER BY updated_at LIMIT 1000
            FOR UPDATE SKIP LOCKED LOOP
        DELETE FROM afloat.events WHERE owner = current_user AND session = s;
        DELETE FROM afloat.sessions WHERE owner = current_user AND id = s;
        gone := gone + 1;
    END LOOP;
    DELETE FROM afloat.events WHERE owner = current_user AND seq IS NULL AND ts < before;
    PERFORM afloat.partitions_drop(before);
    RETURN gone;
END $$;

-- Drop months that ended before `p_before` and hold nothing.
CREATE FUNCTION afloat.partitions_drop(p_before bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part text;
    empty boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(7041120231);
    FOR part IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'afloat.events'::regclass AND c.relname ~ '^events_[0-9]{6}$' LOOP
        IF afloat.month_ms((to_date(substr(part, 8), 'YYYYMM') + interval '1 month')::date) <= p_before THEN
            EXECUTE format('SELECT NOT EXISTS (SELECT FROM afloat.%I)', part) INTO empty;
            IF empty THEN
                EXECUTE format('DROP TABLE afloat.%I', part);
            END IF;
        END IF;
    END LOOP;
END $$;

SELECT afloat.partitions_make();

-- ---- rights ----------------------------------------------------------------------------------

-- afloat_hub: what a hub needs, and no more. It cannot change tables, nor see rows of other owners.
DO $$
BEGIN
    CREATE ROLE afloat_hub NOLOGIN;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'the role afloat_hub was not made: this user may not create roles';
END $$;

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['hubs', 'sessions', 'streams', 'events', 'documents', 'runs'] LOOP
        EXECUTE format('ALTER TABLE afloat.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE afloat.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own ON afloat.%I USING (owner = current_user)'
            ' WITH CHECK (owner = current_user)', t);
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'afloat_hub') THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON afloat.%I TO afloat_hub', t);
        END IF;
    END LOOP;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA afloat FROM PUBLIC;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'afloat_hub') THEN
        GRANT USAGE ON SCHEMA afloat TO afloat_hub;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA afloat TO afloat_hub;
        GRANT SELECT ON afloat.migrations TO afloat_hub;
    END IF;
END $$;
