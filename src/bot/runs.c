// Runs, found: on disk by their records, and those that live. Shown, stopped, spoken to; runs_list.c lists them.

#include "bot/runs.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/time.h"
#include "bot/run.h"
#include "bot/runs_int.h"
#include "config/home.h"

// ---- walking ------------------------------------------------------------------------------------

/// Call `cb` for every name in `dir` that is not hidden, or for `only`.
static bool each_name(const char *dir, const char *only, bool (*cb)(void *arg, const char *name),
                      void *arg)
{
    if (only != NULL) {
        return cb(arg, only);
    }
    DIR *d = opendir(dir);
    struct dirent *entry;
    bool more = true;
    while (more && d != NULL && (entry = readdir(d)) != NULL) {
        more = entry->d_name[0] == '.' || cb(arg, entry->d_name);
    }
    if (d != NULL) {
        closedir(d);
    }
    return more;
}

struct walk {
    const char *home, *bot, *project;
    const char *at_bot, *at_project; // where it is
    runs_cb *cb;
    void *arg;
};

static bool walk_record(void *arg, const char *name)
{
    struct walk *w = arg;
    struct str id = str_of(name);
    if (!str_ends(id, ".json")) {
        return true;
    }
    id.n -= strlen(".json");
    char *path =
        xasprintf("%s/bots/%s/workspaces/%s/runs/%s", w->home, w->at_bot, w->at_project, name);
    bool more = !record_id_valid(id) || w->cb(w->arg, path, id);
    free(path);
    return more;
}

static bool walk_project(void *arg, const char *name)
{
    struct walk *w = arg;
    w->at_project = name;
    char *dir = xasprintf("%s/bots/%s/workspaces/%s/runs", w->home, w->at_bot, name);
    bool more = each_name(dir, NULL, walk_record, w);
    free(dir);
    return more;
}

static bool walk_bot(void *arg, const char *name)
{
    struct walk *w = arg;
    w->at_bot = name;
    char *dir = xasprintf("%s/bots/%s/workspaces", w->home, name);
    bool more = each_name(dir, w->project, walk_project, w);
    free(dir);
    return more;
}

void runs_each(const char *home, const char *bot, const char *project, runs_cb *cb, void *arg)
{
    struct walk w = {.home = home, .bot = bot, .project = project, .cb = cb, .arg = arg};
    char *dir = xasprintf("%s/bots", home);
    each_name(dir, bot, walk_bot, &w);
    free(dir);
}

int runs_load(struct record *out, const char *path, struct err *e)
{
    struct buf text;
    struct err own = {0};
    buf_init(&text, RECORD_BYTES);
    int rc = path_read(path, &text, &own);
    if (rc == 0) {
        rc = record_parse(out, buf_str(&text), &own);
        rc = rc < 0 ? err_prefix(&own, "'%s'", path) : 0;
    } else {
        record_init(out);
    }
    if (rc < 0 && e != NULL) {
        *e = own;
    }
    buf_fini(&text);
    return rc;
}

/// The text of the member `key`, as it is written; STR_NULL when it is none.
static struct str member_of(struct str text, const char *key)
{
    const char *at = memmem(text.p, text.n, key, strlen(key));
    if (at == NULL) {
        return STR_NULL;
    }
    struct str rest = str_trim(str_from(text, (size_t)(at - text.p) + strlen(key)));
    return str_starts(rest, "\"") ? rest : STR_NULL;
}

bool runs_glance(struct runs_glance *out, const char *path, const char *repository)
{
    struct buf text;
    buf_init(&text, RECORD_BYTES);
    bool good = path_read(path, &text, NULL) == 0 &&
                (repository == NULL ||
                 str_starts(member_of(buf_str(&text), "\"repository\":"), repository));
    if (good) {
        struct str time = str_from(member_of(buf_str(&text), "\"started_at\":"), 1);
        out->running = str_starts(member_of(buf_str(&text), "\"state\":"), "\"running\"");
        out->started_at = 0;
        time_parse(str_cut(&time, '"'), &out->started_at);
    }
    buf_fini(&text);
    return good;
}

// ---- finding ------------------------------------------------------------------------------------

struct search {
    struct str id;
    char *path; // what was found
    size_t n;
    int64_t newest;
};

static bool search_id(void *arg, const char *path, struct str id)
{
    struct search *s = arg;
    if (s->id.n <= id.n && memcmp(s->id.p, id.p, s->id.n) == 0) {
        free(s->path);
        s->path = xstrdup(path);
        s->n = s->id.n == id.n ? 1 : s->n + 1;
        return s->id.n != id.n; // the very one
    }
    return true;
}

static bool search_session(void *arg, const char *path, struct str id)
{
    struct search *s = arg;
    struct record rec;
    (void)id;
    bool found = false;
    if (runs_load(&rec, path, NULL) == 0) {
        vec_foreach (it, &rec.iterations) {
            found = found || strncmp(it->session_id, s->id.p, s->id.n) == 0;
        }
    }
    record_fini(&rec);
    if (found) {
        free(s->path);
        s->path = xstrdup(path);
        s->n++;
    }
    return true;
}

static bool search_last(void *arg, const char *path, struct str id)
{
    struct search *s = arg;
    struct runs_glance g;
    (void)id;
    if (runs_glance(&g, path, NULL) && g.started_at >= s->newest) {
        s->newest = g.started_at;
        free(s->path);
        s->path = xstrdup(path);
        s->n = 1;
    }
    return true;
}

/// Load what was found; one, or an error.
static int finish(struct search *s, struct record *out, struct err *e)
{
    int rc;
    if (s->n == 1) {
        rc = runs_load(out, s->path, e);
    } else {
        record_init(out);
        rc = s->n == 0 ? err_set(e, ERR_NOT_FOUND, "there is no run '%.*s'",
                                 (int)MIN(s->id.n, (size_t)64), s->id.p)
                       : err_set(e, ERR_CONFLICT, "%zu runs begin with '%.*s': give more of the id",
                                 s->n, (int)MIN(s->id.n, (size_t)64), s->id.p);
    }
    free(s->path);
    return rc;
}

int runs_find(struct record *out, const char *home, const char *bot, struct str id, struct err *e)
{
    struct search s = {.id = id};
    if (id.n != 0) {
        runs_each(home, bot, NULL, search_id, &s);
    }
    return finish(&s, out, e);
}

int runs_find_any(struct record *out, const char *home, const char *bot, struct str id,
                  struct err *e)
{
    struct search s = {.id = id};
    if (id.n != 0) {
        runs_each(home, bot, NULL, search_id, &s);
    }
    if (s.n == 0 && id.n != 0) {
        runs_each(home, bot, NULL, search_session, &s);
    }
    if (s.n == 0) {
        record_init(out);
        return err_set(e, ERR_NOT_FOUND, "'%s' has no run or session '%.*s'", bot,
                       (int)MIN(id.n, (size_t)64), id.p);
    }
    return finish(&s, out, e);
}

int runs_find_last(struct record *out, const char *home, const char *bot, const char *project,
                   struct err *e)
{
    struct search s = {.newest = INT64_MIN};
    runs_each(home, bot, project, search_last, &s);
    if (s.n == 0) {
        record_init(out);
        return err_set(e, ERR_NOT_FOUND, "'%s' has no run in '%s' to go on with", bot, project);
    }
    return finish(&s, out, e);
}

// ---- one ----------------------------------------------------------------------------------------

static void free_record(void *data)
{
    record_fini(data);
    free(data);
}

static void find_one(struct ask *a) // on the lane
{
    struct record *rec = a->data;
    record_fini(rec);
    a->rc = runs_find(rec, a->b->o.home->dir, NULL, ask__str(a, "id"), &a->e);
}

void runs__find(struct ask *a, ask_fn *then)
{
    struct record *rec = xmalloc(sizeof *rec);
    record_init(rec);
    a->data = rec;
    a->free_data = free_record;
    ask__work(a, find_one, then);
}

void runs__answer(struct ask *a, const struct record *rec)
{
    jw_obj(&a->w);
    record_write(rec, &a->w, true);
    jw_end_obj(&a->w);
    ask__answer(a);
}

static void show(struct ask *a)
{
    const struct record *rec = a->data;
    struct run *live = bots__run_of(a->b, str_of(rec->run_id));
    if (live != NULL && !run_record(live)->running && !run_is_unsaved(live)) {
        run_await(live, a); // it has ended when that is written
    } else {
        runs__answer(a, live != NULL ? run_record(live) : rec);
    }
}

void bots_run_show(struct bots *b, const struct json *params, agent_text_cb *cb, void *arg)
{
    runs__find(ask__new(b, params, cb, arg), show);
}

static void answer_found(struct ask *a)
{
    runs__answer(a, a->data);
}

/// It lives no more: what was read may be from before its end.
static void read_ended(struct ask *a)
{
    ask__work(a, find_one, answer_found);
}

static void stop(struct ask *a)
{
    const struct record *rec = a->data;
    struct run *live = bots__run_of(a->b, str_of(rec->run_id));
    if (live == NULL) {
        read_ended(a);
        return;
    }
    if (run_is_unsaved(live)) {
        runs__answer(a, run_record(live));
        return;
    }
    run_await(live, a);
    run_stop(live, json_bool(json_get(a->params, "force"), false));
}

void bots_run_stop(struct bots *b, const struct json *params, agent_text_cb *cb, void *arg)
{
    runs__find(ask__new(b, params, cb, arg), stop);
}

static void say(struct ask *a)
{
    const struct record *rec = a->data;
    struct run *live = bots__run_of(a->b, str_of(rec->run_id));
    if (live != NULL) {
        run_say(live, a);
    } else {
        ask__no(a, PROBLEM_CONFLICT, NULL,
                "run '%s' has ended: `afloat run %s TEXT --resume %s` goes on with it", rec->run_id,
                rec->bot, rec->run_id);
    }
}

void bots_run_input(struct bots *b, const struct json *params, agent_text_cb *cb, void *arg)
{
    struct ask *a = ask__new(b, params, cb, arg);
    if (str_trim(ask__str(a, "text")).n == 0) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'text' is empty");
        return;
    }
    runs__find(a, say);
}
