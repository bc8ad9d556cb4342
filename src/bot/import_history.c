// Sessions of an openbot, made into ours.
//
//     history/ID/metadata.json + events.jsonl   ┐
//     history/ID.json  (one file, old versions) ┴─> session in memory ──> history/.import-ID/ ──rename──>
//                                                                         history/ID/
//
// Their events have no time and no tool results: `message` is a piece of text, `command` a finished command,
// `token_count` a sum. Pieces that follow each other become one message, a command becomes a call and its
// result, and all of them carry the time at which the session began.
//
// Invariants:
//   - a session is there whole or not at all; one that is there already is left alone.
//   - numbers are unique in a workspace: theirs are kept where they are free, else a new one is taken.

#include <errno.h>

#include "base/path.h"
#include "base/sha256.h"
#include "base/time.h"
#include "bot/history_number.h"
#include "bot/import_int.h"
#include "store/journal.h"

enum { NUMBER_MAX = 1000000000 };

/// A session of theirs.
struct past {
    struct arena arena;
    struct buf meta_text, events_text;
    struct json *meta; // an object
    char id[STORE_ID_MAX + 1];
    uint64_t number; // 0: none
    int64_t started_at, ended_at;
    int64_t commands;
    // being written
    struct buf journal, said;
    uint64_t seq;
    int rc;
    struct err err;
};

struct numbers {
    vec(uint64_t) used; // in our history
    uint64_t last;      // the highest, theirs too
};

// ---- events -------------------------------------------------------------------------------------

/// Add an event whose members, without braces, are in `fields`.
static void add_event(struct past *r, const char *type, int64_t ts, struct buf *fields)
{
    struct str f = buf_str(fields);
    struct store_event ev = {str_of(type), {f.p + 1, f.n - 2}};
    if (r->rc == 0) {
        r->rc = journal_encode(&r->journal, r->seq + 1, ts, &ev, &r->err);
        r->seq += r->rc == 0;
    }
    buf_fini(fields);
}

static void open_event(struct past *r, struct jw *w, struct buf *fields)
{
    buf_init(fields, SIZE_MAX);
    jw_init(w, fields);
    jw_obj(w);
    jw_kstrz(w, "session", r->id);
    jw_kstrz(w, "turn", "t1");
}

static void add_message(struct past *r, const char *role, struct str text)
{
    struct buf fields;
    struct jw w;
    if (text.n != 0) {
        open_event(r, &w, &fields);
        jw_kint(&w, "step", 1);
        jw_kstrz(&w, "role", role);
        jw_kstr(&w, "text", text);
        jw_end_obj(&w);
        add_event(r, "message.completed", r->started_at, &fields);
    }
}

/// The pieces so far are a message.
static void flush(struct past *r)
{
    add_message(r, "assistant", buf_str(&r->said));
    buf_clear(&r->said);
}

static void add_call(struct past *r, const struct json *ev)
{
    struct buf fields;
    struct jw w;
    char id[32];
    int64_t code = json_int(json_get(ev, "exit_code"), 0);
    flush(r);
    snprintf(id, sizeof id, "call_%lld", (long long)++r->commands);
    open_event(r, &w, &fields);
    jw_kstrz(&w, "call_id", id);
    jw_kstrz(&w, "tool", "shell");
    jw_kobj(&w, "input");
    jw_kstr(&w, "cmd", json_str(json_get(ev, "command"), ""));
    jw_end_obj(&w);
    jw_end_obj(&w);
    add_event(r, "tool.called", r->started_at, &fields);
    open_event(r, &w, &fields);
    jw_kstrz(&w, "call_id", id);
    jw_kstrz(&w, "tool", "shell");
    jw_kstrz(&w, "output", "");
    jw_kbool(&w, "success", code == 0);
    jw_key(&w, "error");
    if (code == 0) {
        jw_null(&w);
    } else {
        jw_strf(&w, "exit %lld", (long long)code);
    }
    jw_kint(&w, "duration_ms", json_int(json_get(ev, "duration_ms"), 0));
    jw_end_obj(&w);
    add_event(r, "tool.completed", r->started_at, &fields);
}

static void add_usage(struct past *r, const struct json *ev)
{
    static const char *const names[][2] = {{"input", "input_tokens"},
                                           {"cached", "cached_input_tokens"},
                                           {"output", "output_tokens"},
                                           {"reasoning", "reasoning_output_tokens"}};
    struct buf fields;
    struct jw w;
    open_event(r, &w, &fields);
    jw_kobj(&w, "usage");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        jw_kint(&w, names[i][0], json_int(json_get(ev, names[i][1]), 0));
    }
    jw_kstrz(&w, "cost_usd", NULL);
    jw_end_obj(&w);
    jw_end_obj(&w);
    add_event(r, "usage.updated", r->started_at, &fields);
}

static void take_event(struct past *r, const struct json *ev)
{
    struct str type = json_str(json_get(ev, "type"), "");
    if (str_eqz(type, "message")) {
        buf_adds(&r->said, json_str(json_get(ev, "content"), ""));
    } else if (str_eqz(type, "command")) {
        add_call(r, ev);
    } else if (str_eqz(type, "token_count")) {
        flush(r);
        add_usage(r, ev);
    }
}

static void take_lines(struct past *r, struct str text)
{
    while (text.n != 0 && r->rc == 0) {
        struct arena a = {0};
        struct json *ev;
        struct json_opts opts = {.dup = JSON_DUP_LAST};
        struct str line = str_cut(&text, '\n');
        if (json_parse(&ev, &a, line, &opts, NULL) == 0) { // as their reader does
            take_event(r, ev);
        }
        arena_fini(&a);
    }
}

static struct str meta_text(const struct past *r, const char *key)
{
    return json_str(json_get(r->meta, key), "");
}

/// The single file of old versions has what was said and run beside the metadata.
static void take_legacy(struct past *r)
{
    json_foreach_item (ev, json_get(r->meta, "events")) {
        take_event(r, ev);
    }
    json_foreach_item (ev, json_get(r->meta, "commands")) {
        add_call(r, ev);
    }
    flush(r);
    struct str said = meta_text(r, "response");
    add_message(r, "assistant", said.n != 0 ? said : meta_text(r, "full_response"));
}

static void write_events(struct past *r)
{
    struct buf fields;
    struct jw w;
    open_event(r, &w, &fields);
    jw_kstr(&w, "model", meta_text(r, "model"));
    jw_kstrz(&w, "imported", "openbot");
    jw_end_obj(&w);
    add_event(r, "session.created", r->started_at, &fields);
    add_message(r, "user", meta_text(r, "prompt_summary"));
    take_lines(r, buf_str(&r->events_text));
    flush(r);
    take_legacy(r);
    open_event(r, &w, &fields);
    jw_kstr(&w, "text", meta_text(r, "response_summary"));
    jw_end_obj(&w);
    add_event(r, "turn.completed", r->ended_at, &fields);
}

// ---- metadata -----------------------------------------------------------------------------------

static void write_meta(const struct past *r, const char *label, struct buf *out)
{
    static const char *const texts[] = {"model", "prompt_summary", "response_summary", "action"};
    struct str slug = str_of(label), bot = str_cut(&slug, '/');
    char time[TIME_TEXT];
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "session_id", r->id);
    jw_kint(&w, "session_number", (int64_t)r->number);
    jw_kstrz(&w, "run_id", NULL);
    jw_kstr(&w, "bot", bot);
    jw_kstr(&w, "project", slug);
    jw_kstrz(&w, "state", "ended");
    jw_kstrz(&w, "started_at", time_format(r->started_at, time));
    jw_kstrz(&w, "ended_at", time_format(r->ended_at, time));
    jw_kint(&w, "duration_secs", (r->ended_at - r->started_at) / 1000);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        jw_kvalue(&w, texts[i], json_get(r->meta, texts[i]));
    }
    // openbot writes zeros at the start, and the rest when a session comes to its end
    bool ended = meta_text(r, "response_summary").n != 0;
    jw_kstrz(&w, "end_reason", ended ? "complete" : "interrupted");
    jw_kvalue(&w, "tokens", json_get(r->meta, "tokens"));
    jw_kint(&w, "command_count", r->commands);
    jw_kstrz(&w, "branch", NULL);
    jw_kstrz(&w, "worktree", NULL);
    jw_kstrz(&w, "imported", "openbot");
    jw_end_obj(&w);
    buf_addc(out, '\n');
}

// ---- one session --------------------------------------------------------------------------------

static void past_init(struct past *r)
{
    *r = (struct past){.meta_text = {.max = IMPORT_FILE_BYTES},
                       .events_text = {.max = IMPORT_FILE_BYTES},
                       .journal = {.max = SIZE_MAX},
                       .said = {.max = SIZE_MAX}};
}

static void past_fini(struct past *r)
{
    arena_fini(&r->arena);
    buf_fini(&r->meta_text);
    buf_fini(&r->events_text);
    buf_fini(&r->journal);
    buf_fini(&r->said);
}

/// The name of theirs where it can be an id of ours, else one made from it.
static void name_past(struct past *r, struct str name)
{
    if (store_id_valid(name)) {
        snprintf(r->id, sizeof r->id, STR_FMT, STR_ARG(name));
        return;
    }
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    sha256_of(name, hash);
    snprintf(r->id, sizeof r->id, "openbot-%.16s", sha256_hex(hash, hex));
}

static int parse_meta(struct past *r, const char *path, struct err *e)
{
    struct json_opts opts = {.dup = JSON_DUP_LAST};
    if (json_parse(&r->meta, &r->arena, buf_str(&r->meta_text), &opts, e) < 0) {
        return err_set(e, ERR_PARSE, "'%s' is no JSON", path);
    }
    if (r->meta->type != JSON_OBJ) {
        return err_set(e, ERR_PARSE, "'%s' is no object", path);
    }
    int64_t secs = json_int(json_get(r->meta, "duration_secs"), 0);
    int64_t number = json_int(json_get(r->meta, "session_number"), 0);
    if (!time_parse(meta_text(r, "started_at"), &r->started_at) || r->started_at < 0) {
        r->started_at = 0;
    }
    secs = secs < 0 || secs > NUMBER_MAX ? 0 : secs;
    r->ended_at = r->started_at + secs * 1000;
    r->number = number > 0 && number <= NUMBER_MAX ? (uint64_t)number : 0;
    return 0;
}

static bool is_legacy(const char *entry)
{
    return str_ends(str_of(entry), ".json");
}

static int read_meta(struct past *r, const char *history, const char *entry, struct err *e)
{
    char *path = xasprintf("%s/%s%s", history, entry, is_legacy(entry) ? "" : "/metadata.json");
    int rc = import__read(path, &r->meta_text, e);
    rc = rc == 0 ? parse_meta(r, path, e) : rc;
    free(path);
    return rc;
}

/// Hubs that share a store have numbers that we do not see: there each gets a new one.
static int choose_number(struct past *r, struct shelf *sh, const char *ours, struct numbers *n,
                         struct err *e)
{
    bool used = r->number == 0 || sh != NULL;
    vec_foreach (it, &n->used) {
        used = used || *it == r->number;
    }
    int rc = used ? history_number_take(sh, ours, &r->number, e) : 0;
    if (rc == 0) {
        vec_push(&n->used, r->number);
    }
    return rc;
}

/// Write the files beside and rename the directory.
static int put_past(struct past *r, const char *history, const char *label, struct err *e)
{
    struct buf meta = {.max = SIZE_MAX};
    char *temp = xasprintf("%s/.import-%s", history, r->id);
    char *to = path_join(history, r->id);
    char *meta_path = path_join(temp, "metadata.json"), *events = path_join(temp, "events.jsonl");
    write_events(r);
    write_meta(r, label, &meta);
    import__drop(temp); // of an import that was killed
    int rc = r->rc < 0 ? err_set(e, r->rc, "%s", r->err.msg) : path_mkdirs(temp, 0700, e);
    rc = rc == 0 ? path_write_new(events, buf_str(&r->journal), 0600, e) : rc;
    rc = rc == 0 ? path_write_new(meta_path, buf_str(&meta), 0600, e) : rc;
    if (rc == 0 && rename(temp, to) < 0) {
        rc = err_sys(e, "cannot make '%s'", to);
    }
    if (rc < 0) {
        import__drop(temp);
    }
    buf_fini(&meta);
    free(events);
    free(meta_path);
    free(to);
    free(temp);
    return rc;
}

// ---- a workspace --------------------------------------------------------------------------------

static bool is_session(const char *theirs, const char *entry)
{
    char *path = path_join(theirs, entry);
    bool yes = is_legacy(entry) || import__is_dir(path);
    free(path);
    return yes;
}

/// Do hubs that share a store have the session of the directory `to`?
static bool is_shared(struct shelf *sh, const char *to)
{
    struct buf meta = {.max = SIZE_MAX}, none = {.max = SIZE_MAX};
    bool there = sh != NULL && shelf_session(sh, to, 0, &meta, &none, NULL) == 0;
    buf_fini(&meta);
    buf_fini(&none);
    return there;
}

static void take_session(struct import *im, const char *theirs, const char *ours, const char *entry,
                         const char *label, struct numbers *n)
{
    struct past r;
    struct err e = {0};
    struct str name = str_of(entry);
    name.n -= is_legacy(entry) ? strlen(".json") : 0;
    past_init(&r);
    name_past(&r, name);
    char *history = path_join(ours, "history");
    char *to = path_join(history, r.id), *full = path_join(label, r.id);
    if (import__is_dir(to) || is_shared(im->shelf, to)) {
        import__note(im, IMPORT_KEPT, "session", full, NULL);
    } else {
        int rc = read_meta(&r, theirs, entry, &e);
        if (rc == 0 && !is_legacy(entry)) {
            char *events = xasprintf("%s/%s/events.jsonl", theirs, entry);
            rc = import__read(events, &r.events_text, &e);
            rc = rc == -ENOENT ? 0 : rc; // it said nothing
            free(events);
        }
        rc = rc == 0 ? choose_number(&r, im->shelf, ours, n, &e) : rc;
        rc = rc == 0 ? put_past(&r, history, label, &e) : rc;
        if (rc == 0 && im->shelf != NULL && (rc = shelf_add_session(im->shelf, to, &e)) < 0) {
            import__drop(to);
        }
        enum import_outcome bad = rc == ERR_CONFLICT ? IMPORT_KEPT : IMPORT_FAILED;
        import__note(im, rc < 0 ? bad : IMPORT_TAKEN, "session", full, rc < 0 ? "%s" : NULL, e.msg);
    }
    free(full);
    free(to);
    free(history);
    past_fini(&r);
}

/// The numbers of the sessions in `history`, which is ours or theirs.
static void note_numbers(struct numbers *n, const char *history, bool ours)
{
    size_t count;
    char **names = import__list(history, &count);
    for (size_t i = 0; i < count; i++) {
        struct past r;
        past_init(&r);
        struct err ignored;
        if (is_session(history, names[i]) && read_meta(&r, history, names[i], &ignored) == 0 &&
            r.number != 0) {
            n->last = MAX(n->last, r.number);
            if (ours) {
                vec_push(&n->used, r.number);
            }
        }
        past_fini(&r);
    }
    import__free_list(names, count);
}

void import__history(struct import *im, const char *theirs, const char *ours, const char *label)
{
    struct numbers numbers = {0};
    struct err e = {0};
    int rc = 0;
    size_t n;
    char **entries = import__list(theirs, &n);
    char *history = path_join(ours, "history");
    if (n != 0) {
        note_numbers(&numbers, history, true);
        note_numbers(&numbers, theirs, false);
        rc = path_mkdirs(history, 0700, &e);
        rc = rc == 0 && im->shelf == NULL ? history_number_raise(NULL, ours, numbers.last, &e) : rc;
    }
    if (rc < 0) {
        import__note(im, IMPORT_FAILED, "session", label, "%s", e.msg);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (is_session(theirs, entries[i])) {
            take_session(im, theirs, ours, entries[i], label, &numbers);
        }
    }
    import__free_list(entries, n);
    vec_fini(&numbers.used);
    free(history);
}
