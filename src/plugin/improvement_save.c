// plugin_save: an improvement that a session writes.
//
//     scope: this session ── file written (lane) ── reload of that one ── report
//
// The scope is set before the file is there, so that what an agent writes is never active anywhere else, not for
// a moment. A name that the user or another session uses is refused.

#include "base/path.h"
#include "plugin/improvements_int.h"
#include "plugin/manifest.h"
#include "plugin/sessions.h"

enum { CONTENT_MAX = 256 * 1024 };

struct improvement_saving {
    struct improvements *imp;
    struct gen_engine *engine;
    char *unit, *content, *path;
    int rc;
    struct err e;
    improvement_saved *done;
    void *arg;
};

static void end(struct improvement_saving *s, const struct gen_report *r, const struct err *e)
{
    s->done(s->arg, r, e);
    free(s->unit);
    free(s->content);
    free(s->path);
    free(s);
}

static void on_report(const struct gen_report *r, void *arg)
{
    end(arg, r, NULL);
}

/// On the lane. Improvements may write to their directory: the temporary file is made in the one above, out of
/// their reach.
static void write_file(void *arg)
{
    struct improvement_saving *s = arg;
    struct str dir = path_dir(str_of(s->path));
    char *inside = str_dup(dir), *above = str_dup(path_dir(dir));
    s->rc = path_mkdirs(inside, 0700, &s->e);
    if (s->rc == 0) {
        s->rc = path_write_through(above, s->path, str_of(s->content), 0600, &s->e);
    }
    free(inside);
    free(above);
}

static void on_written(void *arg)
{
    struct improvement_saving *s = arg;
    struct str unit = str_of(s->unit);
    if (s->rc < 0 || s->imp->stopped) { // without an error, the hub stops
        end(s, NULL, s->rc < 0 ? &s->e : NULL);
        return;
    }
    improvements_put(s->imp, str_from(unit, strlen(IMPROVEMENTS)), str_of(s->content));
    struct gen_request req = {.trigger = "agent", .names = &unit, .n_names = 1, .wait_all = true};
    gen_request(s->engine, &req, on_report, s);
}

static void on_refused(void *arg)
{
    struct improvement_saving *s = arg;
    end(s, NULL, &s->e);
}

static int check(struct improvement_saving *s, struct str name, struct str content,
                 const char *session)
{
    if (s->imp == NULL || s->imp->stopped) {
        return err_set(&s->e, ERR_UNSUPPORTED,
                       "plugins cannot be written here: improvements are off");
    }
    if (!plugin_name_valid(name)) {
        return err_set(&s->e, ERR_INVALID,
                       "'%.*s' is no name for a plugin: it has to be like 'roll-dice'",
                       (int)MIN(name.n, (size_t)64), name.p);
    }
    if (content.n > CONTENT_MAX || memchr(content.p, '\0', content.n) != NULL) {
        return err_set(&s->e, ERR_TOO_LARGE, "the code is no text of at most %d bytes",
                       CONTENT_MAX);
    }
    struct scope scope = scopes_get(improvements_scopes(s->imp), name);
    bool taken = scope.kind == SCOPE_ALL ? gen_state_of(s->engine, str_of(s->unit)) != GEN_REMOVED
                                         : strcmp(scope.of, session) != 0;
    return taken ? err_set(&s->e, ERR_CONFLICT, "the name '%.*s' is taken: choose another",
                           (int)name.n, name.p)
                 : 0;
}

void plugin_view_save(void *view, struct str name, struct str content, const char *session,
                      improvement_saved *done, void *arg)
{
    const struct plugin_view *v = view;
    struct improvement_saving *s = xcalloc(1, sizeof *s);
    s->imp = v->improvements;
    s->engine = v->engine;
    s->done = done;
    s->arg = arg;
    s->unit = xasprintf(IMPROVEMENTS STR_FMT, STR_ARG(name));
    if (check(s, name, content, session) < 0) {
        loop_defer(v->loop, on_refused, s);
        return;
    }
    s->content = str_dup(content);
    s->path = xasprintf("%s/" STR_FMT ".lua", s->imp->opts.dir, STR_ARG(name));
    scopes_set(improvements_scopes(s->imp), name, SCOPE_SESSION, str_of(session));
    work_submit(s->imp->lane, 0, write_file, on_written, s);
}
