-- Plugins over hubs: contents by hash, and which of them are current.
--
-- Owners. Plugins are code that runs with the rights of a hub's user. So these rows belong to the user who
-- logged in (`session_user`), within the role that he works as: members of a team share sessions and runs, and
-- do not give each other plugins.
--
-- Sets. A set lists plugins by place and content hash; it never changes. `current` is the set that all hubs
-- have. A roll-out leads from `current` to `next`, one hub after the other: a hub wants `next` once it had
-- its turn, and `current` otherwise. When the hub that leads is lost or gives up, `next` counts no more, so
-- every hub that had its turn goes back by itself.
--
-- Repeats. A statement whose answer was lost is sent again: each is harmless then.

CREATE FUNCTION afloat.plugin_owner() RETURNS text LANGUAGE sql STABLE AS
$$ SELECT quote_ident(session_user) || '/' || quote_ident(current_user) $$;

CREATE TABLE afloat.plugin_blobs (
    owner    text        NOT NULL DEFAULT afloat.plugin_owner(),
    hash     text        COLLATE "C" NOT NULL, -- of the files, as state/versions names them
    body     text        NOT NULL,             -- the files
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, hash)
);

CREATE TABLE afloat.plugin_sets (
    owner  text   NOT NULL DEFAULT afloat.plugin_owner(),
    number bigint NOT NULL,
    body   text   NOT NULL, -- [{place, project, hash}, ...]
    hub    text   NOT NULL, -- that published it
    token  text   NOT NULL, -- of the request
    PRIMARY KEY (owner, number)
);

CREATE TABLE afloat.plugin_channels (
    owner     text   PRIMARY KEY DEFAULT afloat.plugin_owner(),
    id        text   NOT NULL DEFAULT md5(random()::text || clock_timestamp()::text), -- numbers count in it
    last      bigint NOT NULL DEFAULT 0, -- number that was given out
    current   bigint NOT NULL DEFAULT 0, -- 0: nothing was published yet
    next      bigint NOT NULL DEFAULT 0, -- 0: no roll-out
    hub       text   NOT NULL DEFAULT '', -- that leads it
    hub_epoch bigint NOT NULL DEFAULT 0
);

CREATE TABLE afloat.plugin_hubs (
    owner  text   NOT NULL DEFAULT afloat.plugin_owner(),
    hub    text   NOT NULL,
    turn   bigint NOT NULL DEFAULT 0, -- the last set of which it had its turn
    number bigint NOT NULL DEFAULT 0, -- the set of which `answer` tells
    answer text   NOT NULL DEFAULT '{}',
    PRIMARY KEY (owner, hub)
);

CREATE FUNCTION afloat.document_rings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM afloat.ring('plugins');
    RETURN NULL;
END $$;
CREATE TRIGGER documents_ring AFTER INSERT OR UPDATE ON afloat.documents
    FOR EACH ROW WHEN (NEW.name = 'choices.json') EXECUTE FUNCTION afloat.document_rings();

-- Is the hub that leads a roll-out there, in the start that began it?
CREATE FUNCTION afloat.plugin_leads(p_hub text, p_hub_epoch bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM afloat.hubs WHERE owner = current_user AND name = p_hub
                   AND epoch = p_hub_epoch AND lease_until > clock_timestamp())
$$;

-- Which set a hub is to have, and what was chosen by command: `choices` counts its changes.
CREATE FUNCTION afloat.plugin_look(p_hub text, OUT choices bigint, OUT wanted bigint, OUT current bigint,
                                   OUT id text)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    c afloat.plugin_channels;
    had bigint;
BEGIN
    SELECT rev INTO choices FROM afloat.documents WHERE owner = current_user AND name = 'choices.json';
    choices := coalesce(choices, 0);
    SELECT turn INTO had FROM afloat.plugin_hubs WHERE owner = afloat.plugin_owner() AND hub = p_hub;
    IF NOT FOUND THEN
        INSERT INTO afloat.plugin_hubs (hub) VALUES (p_hub) ON CONFLICT DO NOTHING;
    END IF;
    SELECT * INTO c FROM afloat.plugin_channels WHERE owner = afloat.plugin_owner();
    current := coalesce(c.current, 0);
    id := coalesce(c.id, '');
    wanted := CASE WHEN c.next > 0 AND had = c.next AND afloat.plugin_leads(c.hub, c.hub_epoch)
                   THEN c.next ELSE current END;
END $$;

-- Which of these contents are not there yet.
CREATE FUNCTION afloat.plugin_missing(p_hashes text[]) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT h FROM unnest(p_hashes) AS h WHERE NOT EXISTS (
        SELECT FROM afloat.plugin_blobs b WHERE b.owner = afloat.plugin_owner() AND b.hash = h)
$$;

CREATE FUNCTION afloat.plugin_blob_add(p_hash text, p_body text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO afloat.plugin_blobs (hash, body) VALUES (p_hash, p_body)
        ON CONFLICT (owner, hash) DO UPDATE SET added_at = clock_timestamp()
$$;

-- Begin a roll-out of a new set. `p_known` is the set that the publishing hub has: it must be the current one,
-- or what others published since would be taken back. The answer is the number of the new set.
CREATE FUNCTION afloat.plugin_publish(p_hub text, p_hub_epoch bigint, p_known bigint, p_token text, p_body text)
    RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    c afloat.plugin_channels;
    again bigint;
BEGIN
    INSERT INTO afloat.plugin_channels DEFAULT VALUES ON CONFLICT DO NOTHING;
    SELECT * INTO c FROM afloat.plugin_channels WHERE owner = afloat.plugin_owner() FOR UPDATE;
    SELECT number INTO again FROM afloat.plugin_sets WHERE owner = c.owner AND token = p_token;
    IF FOUND THEN
        RETURN again;
    ELSIF c.next > 0 AND c.hub <> p_hub AND afloat.plugin_leads(c.hub, c.hub_epoch) THEN
        PERFORM afloat.refuse('AF409', format('hub ''%s'' is rolling out plugins; try again later', c.hub));
    ELSIF c.current <> p_known THEN
        PERFORM afloat.refuse('AF409', format(
            'this hub does not have the current plugins, which hub ''%s'' published',
            (SELECT s.hub FROM afloat.plugin_sets s WHERE s.owner = c.owner AND s.number = c.current)));
    ELSIF EXISTS (SELECT FROM afloat.plugin_missing(ARRAY(
            SELECT x ->> 'hash' FROM jsonb_array_elements(p_body::jsonb) AS x))) THEN
        PERFORM afloat.refuse('AF409', 'contents of a plugin were removed meanwhile; try again');
    END IF;
    INSERT INTO afloat.plugin_sets (number, body, hub, token) VALUES (c.last + 1, p_body, p_hub, p_token);
    UPDATE afloat.plugin_channels SET last = c.last + 1, next = c.last + 1, hub = p_hub, hub_epoch = p_hub_epoch
        WHERE owner = c.owner;
    RETURN c.last + 1;
END $$;

-- It is the turn of `p_hub`. False: the roll-out is over.
CREATE FUNCTION afloat.plugin_turn(p_number bigint, p_hub text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    given boolean;
BEGIN
    UPDATE afloat.plugin_hubs h SET turn = p_number FROM afloat.plugin_channels c
        WHERE h.owner = afloat.plugin_owner() AND h.hub = p_hub AND c.owner = h.owner AND c.next = p_number;
    given := FOUND;
    PERFORM afloat.ring('plugins');
    RETURN given;
END $$;

-- The roll-out of `p_number` ends: it is current, or every hub goes back. Of old sets, and of contents that no
-- set names, nothing is kept.
CREATE FUNCTION afloat.plugin_end(p_number bigint, p_good boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    ended boolean;
BEGIN
    UPDATE afloat.plugin_channels SET next = 0, current = CASE WHEN p_good THEN p_number ELSE current END
        WHERE owner = afloat.plugin_owner() AND next = p_number;
    ended := FOUND OR EXISTS (SELECT FROM afloat.plugin_channels
        WHERE owner = afloat.plugin_owner() AND (current = p_number) = p_good);
    DELETE FROM afloat.plugin_sets s USING afloat.plugin_channels c
        WHERE s.owner = afloat.plugin_owner() AND c.owner = s.owner AND s.number NOT IN (c.current, c.next)
            AND s.number < c.last - 10;
    DELETE FROM afloat.plugin_blobs b WHERE b.owner = afloat.plugin_owner()
        AND b.added_at < clock_timestamp() - interval '1 hour' AND NOT EXISTS (
            SELECT FROM afloat.plugin_sets s, jsonb_array_elements(s.body::jsonb) AS x
            WHERE s.owner = b.owner AND x ->> 'hash' = b.hash);
    PERFORM afloat.ring('plugins');
    RETURN ended;
END $$;

-- What a hub did with set `p_number`.
CREATE FUNCTION afloat.plugin_say(p_hub text, p_number bigint, p_answer text) RETURNS void LANGUAGE sql AS $$
    UPDATE afloat.plugin_hubs SET number = p_number, answer = p_answer
        WHERE owner = afloat.plugin_owner() AND hub = p_hub;
    SELECT afloat.ring('plugins')
$$;

-- The hubs of this user, as a roll-out sees them.
CREATE FUNCTION afloat.plugin_rows() RETURNS TABLE (hub text, state text, generation bigint, number bigint, answer text)
    LANGUAGE sql STABLE AS $$
    SELECT p.hub, h.state, h.generation, p.number, p.answer FROM afloat.plugin_hubs p
        JOIN afloat.hub_rows() h ON h.name = p.hub WHERE p.owner = afloat.plugin_owner() ORDER BY p.hub
$$;

-- Errors of plugins on a hub in the last `p_ms` milliseconds that it did not tell in the day before, and one of
-- them. A hub tells an error once for each version, so what counts is that it is new, not how often it came.
CREATE FUNCTION afloat.plugin_errors(p_hub text, p_plugins text[], p_ms bigint, OUT fresh bigint, OUT sample text)
    LANGUAGE sql STABLE AS $$
    WITH told AS (
        SELECT e.ts > afloat.now_ms() - p_ms AS late, ('{' || e.fields || '}')::jsonb AS f
        FROM afloat.events e WHERE e.owner = current_user AND e.type = 'plugin.error' AND e.hub = p_hub
            AND e.ts > afloat.now_ms() - p_ms - 86400000
            AND e.id > (SELECT last - 100000 FROM afloat.streams WHERE owner = current_user))
    SELECT count(*), coalesce(min(plugin || ': ' || message), '') FROM (
        SELECT f ->> 'plugin' AS plugin, f ->> 'message' AS message FROM told
        WHERE f ->> 'plugin' = ANY (p_plugins) GROUP BY 1, f ->> 'hook', 2 HAVING bool_and(late)) AS new_ones
$$;

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['plugin_blobs', 'plugin_sets', 'plugin_channels', 'plugin_hubs'] LOOP
        EXECUTE format('ALTER TABLE afloat.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE afloat.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own ON afloat.%I USING (owner = afloat.plugin_owner())'
            ' WITH CHECK (owner = afloat.plugin_owner())', t);
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'afloat_hub') THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON afloat.%I TO afloat_hub', t);
        END IF;
    END LOOP;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA afloat FROM PUBLIC;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'afloat_hub') THEN
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA afloat TO afloat_hub;
    END IF;
END $$;
