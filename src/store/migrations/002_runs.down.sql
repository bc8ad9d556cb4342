-- Runs that the earlier schema cannot hold stay as they are in its columns.

DROP FUNCTION afloat.bot_remove(text, boolean);
DROP FUNCTION afloat.ring(text);
DROP FUNCTION afloat.hub_rows();
DROP FUNCTION afloat.run_say(text, text, bigint);
DROP FUNCTION afloat.run_stop(text, integer);
DROP FUNCTION afloat.run_look(text, bigint, integer, bigint);
DROP FUNCTION afloat.run_claim(text, bigint, text[], integer);
DROP FUNCTION afloat.run_next(text, text[], text[]);
DROP FUNCTION afloat.run_return(text, text, bigint, bigint, boolean);
DROP FUNCTION afloat.run_edit(text, text);
DROP FUNCTION afloat.run_save(text, text, bigint, boolean, boolean, integer, text, text);
DROP FUNCTION afloat.run_add(text, text, bigint, boolean, text, text, text, text, text[], text, bigint, text);
DROP INDEX afloat.runs_newest;
DROP INDEX afloat.runs_busy;
DROP INDEX afloat.runs_held;
DROP INDEX afloat.runs_queue;
ALTER TABLE afloat.runs
    DROP COLUMN bot, DROP COLUMN repository, DROP COLUMN started_at, DROP COLUMN hub_epoch, DROP COLUMN moves,
    DROP COLUMN refused, DROP COLUMN env, DROP COLUMN stops, DROP COLUMN said, DROP COLUMN tokens, DROP COLUMN heard,
    ADD COLUMN lease_until timestamptz;
CREATE INDEX runs_queue ON afloat.runs (owner, queued_at) WHERE state = 'queued';
CREATE INDEX runs_lease ON afloat.runs (owner, lease_until) WHERE hub IS NOT NULL;
