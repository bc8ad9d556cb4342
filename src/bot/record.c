// What is kept of a run, as a document: one table of members for both directions.

#include "bot/record.h"

#include <assert.h>

#include "base/slug.h"
#include "base/time.h"
#include "bot/config.h"

void record_init(struct record *r)
{
    *r = (struct record){0};
#define X(name) r->name = "";
    RECORD_TEXTS(X)
#undef X
}

void record_fini(struct record *r)
{
#define X(name) free(r->name.p);
    RECORD_LISTS(X)
#undef X
    vec_fini(&r->iterations);
    arena_fini(&r->arena);
}

const char *record_text(struct record *r, struct str s)
{
    assert(s.p != NULL || s.n == 0);
    return s.n != 0 ? arena_strdup(&r->arena, s) : "";
}

void record_add(struct record *r, struct record_list *l, struct str s)
{
    vec_push(l, record_text(r, s));
}

void record_add_all(struct record *r, struct record_list *l, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        record_add(r, l, str_of(names[i]));
    }
}

bool record_id_valid(struct str id)
{
    for (size_t i = 0; i < id.n; i++) {
        if (!((id.p[i] >= '0' && id.p[i] <= '9') || (id.p[i] >= 'a' && id.p[i] <= 'f'))) {
            return false;
        }
    }
    return id.n == RECORD_ID - 1;
}

const char *record_last_session(const struct record *r)
{
    return r->iterations.n != 0 ? vec_last(&r->iterations)->session_id : "";
}

char *record_name(const struct record *r)
{
    assert(r->bot[0] != '\0' && r->project[0] != '\0' && r->run_id[0] != '\0');
    return xasprintf("bots/%s/workspaces/%s/runs/%s.json", r->bot, r->project, r->run_id);
}

struct git_worktree record_worktree(const struct record *r, const char *home, struct arena *in)
{
    assert(record_id_valid(str_of(r->run_id)));
    return (struct git_worktree){.common = r->common,
                                 .dir = r->worktree,
                                 .quarantine = arena_printf(in, "%s/quarantine/%s/%s-%s", home,
                                                            r->project, r->bot, r->run_id),
                                 .branch = r->branch,
                                 .start = r->start,
                                 .head = r->head[0] != '\0' ? r->head : NULL,
                                 .rescue = r->rescue,
                                 .full_access = r->full_access};
}

// ---- reading ------------------------------------------------------------------------------------

static const char *take_text(struct record *r, const struct json *doc, const char *key)
{
    return record_text(r, json_str(json_get(doc, key), ""));
}

static int64_t take_time(const struct json *doc, const char *key)
{
    int64_t ms = 0;
    return time_parse(json_str(json_get(doc, key), ""), &ms) ? ms : 0;
}

static void take_list(struct record *r, struct record_list *l, const struct json *doc,
                      const char *key)
{
    json_foreach_item (it, json_get(doc, key)) {
        record_add(r, l, json_str(it, ""));
    }
}

int record_parse(struct record *r, struct str text, struct err *e)
{
    struct json *doc;
    record_init(r);
    int rc = json_parse(&doc, &r->arena, text, NULL, e);
    if (rc < 0) {
        return rc;
    }
#define X(name) r->name = take_text(r, doc, #name);
    RECORD_TEXTS(X)
#undef X
#define X(name) r->name = take_time(doc, #name);
    RECORD_TIMES(X)
#undef X
#define X(name) r->name = json_bool(json_get(doc, #name), false);
    RECORD_FLAGS(X)
#undef X
#define X(name) take_list(r, &r->name, doc, #name);
    RECORD_LISTS(X)
#undef X
    r->running = str_eqz(json_str(json_get(doc, "state"), ""), "running");
    r->queued = str_eqz(json_str(json_get(doc, "state"), ""), "queued");
    // a damaged record may name no repository: then nothing can be done with a worktree or branch
    r->in_place = r->in_place || (r->common[0] != '/' && !r->queued);
    r->commits = json_int(json_get(doc, "commits"), 0);
    r->files = json_int(json_get(doc, "files"), 0);
    r->epoch = json_int(json_get(doc, "epoch"), 0);
    r->options = json_clone(&r->arena, json_get(doc, "options"));
    json_foreach_item (it, json_get(doc, "iterations")) {
        struct record_iteration i = {.number = json_int(json_get(it, "number"), 0),
                                     .session_id = take_text(r, it, "session_id"),
                                     .end_reason = take_text(r, it, "end_reason"),
                                     .summary = take_text(r, it, "summary")};
        vec_push(&r->iterations, i);
    }
    bool whole = record_id_valid(str_of(r->run_id)) && bot_name_valid(str_of(r->bot)) &&
                 slug_valid(str_of(r->project)); // parts of paths, and a file or a store says them
    return whole ? 0 : err_set(e, ERR_CORRUPT, "it is no record of a run");
}

// ---- writing ------------------------------------------------------------------------------------

void record_write(const struct record *r, struct jw *w, bool whole)
{
#define X(name) jw_ktext(w, #name, str_of(r->name));
    RECORD_TEXTS(X)
#undef X
    jw_kstrz(w, "state", r->queued ? "queued" : r->running ? "running" : "ended");
    jw_ktext(w, "session_id", str_of(record_last_session(r)));
#define X(name) jw_ktime(w, #name, r->name);
    RECORD_TIMES(X)
#undef X
#define X(name) jw_kbool(w, #name, r->name);
    RECORD_FLAGS(X)
#undef X
    jw_kint(w, "commits", r->commits);
    jw_kint(w, "files", r->files);
    jw_kint_or_null(w, "epoch", r->epoch != 0, r->epoch);
    jw_key(w, "resume");
    if (r->terminal[0] == '\0' && r->chat[0] == '\0') {
        jw_strf(w, "afloat run %s --resume %s", r->bot, r->run_id);
    } else if (r->running || r->chat[0] != '\0') {
        jw_null(w);
    } else {
        jw_strf(w, "afloat pty new --resume %s", r->run_id);
    }
    if (!whole) {
        return;
    }
#define X(name) jw_kstrs(w, #name, r->name.p, r->name.n);
    RECORD_LISTS(X)
#undef X
    jw_kvalue(w, "options", r->options);
    jw_karr(w, "iterations");
    vec_foreach (it, &r->iterations) {
        jw_obj(w);
        jw_kint(w, "number", it->number);
        jw_kstrz(w, "session_id", it->session_id);
        jw_ktext(w, "end_reason", str_of(it->end_reason));
        jw_ktext(w, "summary", str_of(it->summary));
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

char *record_print(const struct record *r)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    record_write(r, &w, true);
    jw_end_obj(&w);
    return buf_take(&text, NULL);
}

void record_renew(struct record *r)
{
    char *text = record_print(r);
    struct record fresh;
    int rc = record_parse(&fresh, str_of(text), NULL);
    assert(rc == 0); // we wrote it
    record_fini(r);
    *r = fresh;
    free(text);
}
