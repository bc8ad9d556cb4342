-- Runs of bots over hubs: a queue, and who holds what.
--
-- Lease. A hub holds its runs as long as it lives: `hubs.lease_until` is the lease of all of them, and one
-- statement renews it. A run is free again when that time has passed, or when its hub was started anew
-- (`hubs.epoch` is not `hub_epoch`), since the process that ran it is gone then.
--
-- Epoch. Each hub that takes a run raises its `epoch`. Every write of a run names hub and epoch, so a hub that
-- lost it changes nothing. The sessions of a run change hands in the same transaction.
--
-- Repeats. A statement whose answer was lost is sent again: each is harmless then. A claim that was done twice
-- leaves a run that its hub does not know of; the hub gives it back (run_look, run_return).

ALTER TABLE afloat.runs
    DROP COLUMN lease_until,
    ADD COLUMN bot        text    NOT NULL DEFAULT '',
    ADD COLUMN repository text    NOT NULL DEFAULT '',
    ADD COLUMN started_at bigint  NOT NULL DEFAULT 0,  -- milliseconds since 1970
    ADD COLUMN hub_epoch  bigint  NOT NULL DEFAULT 0,  -- which start of its hub
    ADD COLUMN moves      boolean NOT NULL DEFAULT false, -- another hub can go on with it
    ADD COLUMN refused    text[]  NOT NULL DEFAULT '{}',  -- hubs that cannot run it
    ADD COLUMN env        text    NOT NULL DEFAULT '{}',  -- of the client, without secrets
    ADD COLUMN stops      integer NOT NULL DEFAULT 0,  -- how often its end was asked for
    ADD COLUMN said       text[]  NOT NULL DEFAULT '{}', -- to it, by other hubs
    ADD COLUMN tokens     bigint[] NOT NULL DEFAULT '{}', -- of the requests that said it
    ADD COLUMN heard      integer NOT NULL DEFAULT 0;  -- how much of that its hub has taken

UPDATE afloat.runs SET bot = coalesce(body::jsonb ->> 'bot', ''), repository = coalesce(body::jsonb ->> 'repository', ''),
        started_at = coalesce(extract(epoch FROM (body::jsonb ->> 'started_at')::timestamptz) * 1000, 0)
    WHERE owner = current_user; -- there are some after a step back

DROP INDEX afloat.runs_queue;
CREATE INDEX runs_queue ON afloat.runs (owner, project, queued_at) WHERE state = 'queued';
CREATE INDEX runs_held ON afloat.runs (owner, hub, hub_epoch) WHERE state = 'running';
CREATE INDEX runs_busy ON afloat.runs (project, owner) WHERE state = 'running';
CREATE INDEX runs_newest ON afloat.runs (owner, started_at DESC, id DESC);

-- Something for the hubs to look at that is not on the stream, whose doorbell carries numbers only. 'runs': one waits
-- in the queue, or something is wanted of one at work.
CREATE FUNCTION afloat.ring(p_what text) RETURNS void LANGUAGE sql AS
$$ SELECT pg_notify(afloat.channel(), p_what) $$;

-- A run begins: on this hub, or in the queue. One that has ended begins again. The answer is its epoch; 0: it
-- waits in the queue; NULL: it has not ended.
CREATE FUNCTION afloat.run_add(p_id text, p_hub text, p_hub_epoch bigint, p_here boolean, p_bot text,
                               p_project text, p_repository text, p_working_dir text, p_wants text[],
                               p_env text, p_started_at bigint, p_body text)
    RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    r afloat.runs;
BEGIN
    INSERT INTO afloat.runs AS x (id, hub, hub_epoch, epoch, state, bot, project, repository, working_dir,
                                  wants, env, started_at, body)
        VALUES (p_id, CASE WHEN p_here THEN p_hub END, p_hub_epoch, p_here::int,
                CASE WHEN p_here THEN 'running' ELSE 'queued' END, p_bot, p_project, p_repository,
                p_working_dir, p_wants, p_env, p_started_at, p_body)
        ON CONFLICT (owner, id) DO UPDATE SET hub = excluded.hub, hub_epoch = excluded.hub_epoch,
                epoch = x.epoch + excluded.epoch, state = excluded.state, wants = excluded.wants,
                env = excluded.env, body = excluded.body, refused = '{}', stops = 0, said = '{}', tokens = '{}', heard = 0,
                queued_at = clock_timestamp()
            WHERE x.state = 'ended'
        RETURNING * INTO r;
    IF NOT FOUND THEN -- sent again, or it has not ended
        SELECT * INTO r FROM afloat.runs WHERE owner = current_user AND id = p_id
            AND body = p_body AND (hub IS NULL OR (hub = p_hub AND hub_epoch = p_hub_epoch));
    END IF;
    IF r.state = 'queued' THEN
        PERFORM afloat.ring('runs');
    END IF;
    RETURN CASE WHEN r.state = 'queued' THEN 0 ELSE r.epoch END;
END $$;

-- Write a run that this hub holds. False: it does not, and nothing was written.
CREATE FUNCTION afloat.run_save(p_id text, p_hub text, p_epoch bigint, p_ended boolean, p_moves boolean,
                                p_heard integer, p_remote text, p_body text)
    RETURNS boolean LANGUAGE sql AS $$
    WITH saved AS (
        UPDATE afloat.runs SET body = p_body, moves = p_moves, heard = p_heard, remote = p_remote,
                state = CASE WHEN p_ended THEN 'ended' ELSE 'running' END,
                ended_at = CASE WHEN p_ended THEN clock_timestamp() END
            WHERE owner = current_user AND id = p_id AND hub = p_hub AND epoch = p_epoch
                AND (state = 'running' OR p_ended)
            RETURNING 1)
    SELECT EXISTS (SELECT FROM saved)
$$;

-- Replace the document of a run that has ended: it was applied, merged, discarded. False: it has not ended.
CREATE FUNCTION afloat.run_edit(p_id text, p_body text) RETURNS boolean LANGUAGE sql AS $$
    WITH saved AS (
        UPDATE afloat.runs SET body = p_body WHERE owner = current_user AND id = p_id AND state = 'ended'
            RETURNING 1)
    SELECT EXISTS (SELECT FROM saved)
$$;

-- Nobody holds it any more: back into the queue. With `p_refuse` this hub will not take it again.
CREATE FUNCTION afloat.run_return(p_id text, p_hub text, p_hub_epoch bigint, p_epoch bigint, p_refuse boolean)
    RETURNS void LANGUAGE sql AS $$
    UPDATE afloat.runs SET state = 'queued', hub = NULL,
            refused = CASE WHEN p_refuse THEN array_append(array_remove(refused, p_hub), p_hub) ELSE refused END
        WHERE owner = current_user AND id = p_id AND state = 'running' AND hub = p_hub
            AND hub_epoch = p_hub_epoch AND epoch = p_epoch
$$;

-- Which run a hub takes next, locked: first one that a lost hub left, then of the project that has fewest
-- runs at work the one that waits longest. A run that cannot move goes back to its own hub alone. What it
-- costs does not grow with the runs at work: hubs and projects are found by the index, each once, and beyond
-- 50 runs at work projects are alike.
CREATE FUNCTION afloat.run_next(p_hub text, p_labels text[], p_bots text[]) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    found_id text;
    lost record; -- a hub that holds runs and is gone
    p text;      -- a project with runs that wait
BEGIN
    FOR lost IN
        WITH RECURSIVE holders AS ( -- each start of a hub that holds runs once, by the index
            (SELECT r.hub, r.hub_epoch FROM afloat.runs r WHERE r.owner = current_user AND r.state = 'running'
             ORDER BY r.hub, r.hub_epoch LIMIT 1)
            UNION ALL
            SELECT n.* FROM holders x CROSS JOIN LATERAL (
                SELECT r.hub, r.hub_epoch FROM afloat.runs r
                WHERE r.owner = current_user AND r.state = 'running' AND (r.hub, r.hub_epoch) > (x.hub, x.hub_epoch)
                ORDER BY r.hub, r.hub_epoch LIMIT 1) AS n)
        SELECT x.hub, x.hub_epoch FROM holders x
        WHERE NOT EXISTS (SELECT FROM afloat.hubs h -- that lives, in the start that took it
            WHERE h.owner = current_user AND h.name = x.hub AND h.epoch = x.hub_epoch
                AND h.lease_until > clock_timestamp())
    LOOP
        SELECT r.id INTO found_id FROM afloat.runs r
            WHERE r.owner = current_user AND r.state = 'running'
                AND r.hub = lost.hub AND r.hub_epoch = lost.hub_epoch AND (r.moves OR r.hub = p_hub)
                AND r.wants <@ p_labels AND r.bot = ANY (p_bots) AND p_hub <> ALL (r.refused)
            ORDER BY r.queued_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            RETURN found_id;
        END IF;
    END LOOP;
    FOR p IN
        WITH RECURSIVE waiting AS ( -- each project once, by the index
            (SELECT project FROM afloat.runs WHERE owner = current_user AND state = 'queued'
             ORDER BY project LIMIT 1)
            UNION ALL
            SELECT (SELECT r.project FROM afloat.runs r WHERE r.owner = current_user
                    AND r.state = 'queued' AND r.project > w.project ORDER BY r.project LIMIT 1)
            FROM waiting w WHERE w.project IS NOT NULL)
        SELECT w.project FROM waiting w WHERE w.project IS NOT NULL
        ORDER BY (SELECT count(*) FROM (SELECT FROM afloat.runs r WHERE r.owner = current_user
                  AND r.state = 'running' AND r.project = w.project LIMIT 50) AS busy), random()
    LOOP
        SELECT r.id INTO found_id FROM afloat.runs r
            WHERE r.owner = current_user AND r.state = 'queued' AND r.project = p
                AND r.wants <@ p_labels AND r.bot = ANY (p_bots) AND p_hub <> ALL (r.refused)
            ORDER BY r.queued_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            RETURN found_id;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Take a run, if this hub lives, is not draining and has fewer than `p_max`. Sessions that a lost hub had
-- claimed for it come along: from here on that hub cannot write them. `lost`: another hub, or this one before
-- a restart, had it.
CREATE FUNCTION afloat.run_claim(p_hub text, p_hub_epoch bigint, p_bots text[], p_max integer)
    RETURNS TABLE (id text, epoch bigint, body text, env text, lost boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    h afloat.hubs;
    r afloat.runs;
    next_id text;
BEGIN
    SELECT * INTO h FROM afloat.hubs WHERE owner = current_user AND name = p_hub
        AND hubs.epoch = p_hub_epoch AND state = 'live' AND lease_until > clock_timestamp();
    IF NOT FOUND OR p_max <= 0 OR EXISTS (SELECT FROM afloat.runs WHERE owner = current_user AND hub = p_hub
                                          AND state = 'running' OFFSET p_max - 1) THEN
        RETURN;
    END IF;
    next_id := afloat.run_next(p_hub, h.labels, p_bots);
    IF next_id IS NULL THEN
        RETURN;
    END IF;
    PERFORM afloat.hurry(); -- nothing starts before a write under this epoch, which waits for the disk
    SELECT * INTO r FROM afloat.runs x WHERE x.owner = current_user AND x.id = next_id;
    IF r.hub IS NOT NULL THEN
        UPDATE afloat.sessions s SET hub = p_hub, epoch = s.epoch + 1
            WHERE s.owner = current_user AND s.hub = r.hub AND s.meta::jsonb ->> 'run_id' = next_id;
    END IF;
    RETURN QUERY UPDATE afloat.runs x SET hub = p_hub, hub_epoch = p_hub_epoch, epoch = x.epoch + 1,
            state = 'running', moves = r.moves OR r.state = 'queued', stops = CASE WHEN x.state = 'queued' THEN x.stops ELSE 0 END
        WHERE x.owner = current_user AND x.id = next_id
        RETURNING x.id, x.epoch, x.body, x.env, r.state = 'running';
END $$;

-- The runs that this hub holds, and what other hubs want of them; without any, one row without an id. It renews the lease of all of them, and
-- tells the hub's generation on the way.
CREATE FUNCTION afloat.run_look(p_hub text, p_hub_epoch bigint, p_lease_s integer, p_generation bigint)
    RETURNS TABLE (draining boolean, id text, epoch bigint, stops integer, heard integer, said text)
    LANGUAGE sql AS $$
    SELECT afloat.hurry();
    UPDATE afloat.hubs SET generation = p_generation, seen_at = clock_timestamp(),
            lease_until = clock_timestamp() + make_interval(secs => p_lease_s)
        WHERE owner = current_user AND name = p_hub AND hubs.epoch = p_hub_epoch;
    SELECT h.state = 'draining', r.id, r.epoch, r.stops, cardinality(r.said),
            array_to_string(r.said[r.heard + 1:], E'\n')
        FROM afloat.hubs h LEFT JOIN afloat.runs r ON r.owner = h.owner AND r.state = 'running'
            AND r.hub = h.name AND r.hub_epoch = h.epoch
        WHERE h.owner = current_user AND h.name = p_hub AND h.epoch = p_hub_epoch
$$;

-- Ask for the end of a run, wherever it is. One that waits in the queue ends here.
CREATE FUNCTION afloat.run_stop(p_id text, p_n integer) RETURNS void LANGUAGE sql AS $$
    SELECT afloat.ring('runs');
    UPDATE afloat.runs SET stops = greatest(stops, p_n) WHERE owner = current_user AND id = p_id
        AND state = 'running';
    UPDATE afloat.runs SET state = 'ended', ended_at = clock_timestamp(), body = (body::jsonb ||
            jsonb_build_object('state', 'ended', 'end_reason', 'interrupted', 'ended_at',
                to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))::text
        WHERE owner = current_user AND id = p_id AND state = 'queued'
$$;

-- Say something to a run, once: a request that comes twice has the token of the first. False: the run has ended.
CREATE FUNCTION afloat.run_say(p_id text, p_text text, p_token bigint) RETURNS boolean LANGUAGE sql AS $$
    SELECT afloat.ring('runs');
    WITH told AS (
        UPDATE afloat.runs SET
                said = CASE WHEN p_token = ANY (tokens) THEN said ELSE array_append(said, p_text) END,
                tokens = CASE WHEN p_token = ANY (tokens) THEN tokens ELSE array_append(tokens, p_token) END
            WHERE owner = current_user AND id = p_id AND (state <> 'ended' OR p_token = ANY (tokens)) RETURNING 1)
    SELECT EXISTS (SELECT FROM told)
$$;

-- Remove all that hubs have in common of a bot; with `p_really` false only refuse it while one works with the bot.
CREATE FUNCTION afloat.bot_remove(p_bot text, p_really boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    below text COLLATE "C" := 'bots/' || p_bot || '/';
    r record;
BEGIN
    SELECT id, hub INTO r FROM afloat.runs WHERE owner = current_user AND bot = p_bot AND state <> 'ended' LIMIT 1;
    IF FOUND THEN
        PERFORM afloat.refuse('AF409', format('''%s'' runs%s: `afloat runs stop %s` first', p_bot,
            coalesce(' on hub ''' || r.hub || '''', ''), r.id));
    END IF;
    SELECT id, hub INTO r FROM afloat.sessions WHERE owner = current_user AND dir >= below
        AND dir < below || chr(1114111) AND afloat.hub_lives(hub) LIMIT 1;
    IF FOUND THEN
        PERFORM afloat.refuse('AF409', format('session ''%s'' of ''%s'' is running on hub ''%s''', r.id, p_bot, r.hub));
    END IF;
    IF p_really THEN
        DELETE FROM afloat.events e USING afloat.sessions s WHERE s.owner = current_user AND s.dir >= below
            AND s.dir < below || chr(1114111) AND e.owner = current_user AND e.session = s.id;
        DELETE FROM afloat.sessions WHERE owner = current_user AND dir >= below AND dir < below || chr(1114111);
        DELETE FROM afloat.documents WHERE owner = current_user AND name >= below AND name < below || chr(1114111);
        DELETE FROM afloat.runs WHERE owner = current_user AND bot = p_bot;
    END IF;
END $$;

-- Hubs, as people see them.
CREATE FUNCTION afloat.hub_rows() RETURNS TABLE (name text, state text, labels text, generation bigint,
                                                 runs bigint, seen_at bigint) LANGUAGE sql STABLE AS $$
    SELECT h.name, CASE WHEN h.lease_until > clock_timestamp() THEN h.state ELSE 'lost' END,
        to_json(h.labels)::text, h.generation,
        (SELECT count(*) FROM afloat.runs r WHERE r.owner = current_user AND r.hub = h.name
            AND r.state = 'running'),
        (extract(epoch FROM h.seen_at) * 1000)::bigint
    FROM afloat.hubs h WHERE h.owner = current_user ORDER BY h.name
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA afloat FROM PUBLIC;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'afloat_hub') THEN
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA afloat TO afloat_hub;
    END IF;
END $$;
