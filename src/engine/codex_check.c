// Does the installed Codex have what we need? Its own schema says.
//
//     codex app-server generate-json-schema ──> files in our directory ──lane──> are all names there?
//
// `codex app-server` is experimental and changes from version to version, so nothing is taken for granted: before a program
// is used for the first time the names of all methods that we send and hear are looked up in what it says of itself.

#include "base/path.h"
#include "engine/codex_int.h"

/// The files of the schema that we look into, and what must be in them.
static const struct {
    const char *file;
    const char *const *names;
} needs[] = {
    {"ClientRequest.json", (const char *const[]){"initialize", "thread/start", "thread/resume",
                                                 "turn/start", "turn/steer", "turn/interrupt",
                                                 "dynamicTools", "developerInstructions", NULL}},
    {"ServerRequest.json",
     (const char *const[]){"item/commandExecution/requestApproval",
                           "item/fileChange/requestApproval", "item/tool/call", NULL}},
    {"ServerNotification.json",
     (const char *const[]){"item/started", "item/completed", "item/agentMessage/delta",
                           "thread/tokenUsage/updated", "turn/completed", "error", NULL}},
};

enum { SCHEMA_MAX = 16 << 20 };

struct codex_check {
    struct engine_world *world;
    char *program, *dir;
    struct engine_child *child;
    bool cancelled;
    struct err why;
    void (*done)(struct codex *c, const struct err *why);
    struct codex *c; // not to be touched once `cancelled`
    struct loop_task *task;
};

static void check_free(struct codex_check *k)
{
    free(k->program);
    free(k->dir);
    free(k);
}

// ---- on the lane --------------------------------------------------------------------------------

static int look_into(const struct codex_check *k, size_t i, struct err *e)
{
    char *path = path_join(k->dir, needs[i].file);
    struct buf text = {.max = SCHEMA_MAX};
    int rc = path_read(path, &text, e);
    if (rc < 0) {
        err_set(e, ERR_UNSUPPORTED,
                "the program '%s' cannot be used as engine codex: it does not say which methods "
                "it has (%s)",
                k->program, k->why.msg);
    }
    for (const char *const *name = needs[i].names; rc == 0 && *name != NULL; name++) {
        char *quoted = xasprintf("\"%s\"", *name);
        if (memmem(text.p, text.n, quoted, strlen(quoted)) == NULL) {
            rc = err_set(e, ERR_UNSUPPORTED,
                         "the installed Codex is too old or too new: it has no '%s'", *name);
        }
        free(quoted);
    }
    buf_fini(&text);
    free(path);
    return rc;
}

static void look(void *arg)
{
    struct codex_check *k = arg;
    int rc = 0;
    struct err e = {0};
    for (size_t i = 0; i < ARRAY_LEN(needs) && rc == 0; i++) {
        rc = look_into(k, i, &e);
    }
    k->why = e;
    k->why.code = rc;
    (void)!path_remove_tree(k->dir, NULL);
}

// ---- on the loop --------------------------------------------------------------------------------

static void on_looked(void *arg)
{
    struct codex_check *k = arg;
    if (!k->cancelled && k->why.code == 0) { // a world whose threads are closed may be gone
        vec_push(&k->world->checked, xstrdup(k->program));
    }
    if (!k->cancelled) {
        k->done(k->c, k->why.code != 0 ? &k->why : NULL);
    }
    check_free(k);
}

static void on_line(void *arg, struct str line)
{
    (void)arg;
    (void)line;
}

/// It has ended, one way or the other.
static void on_end(void *arg, const struct err *e)
{
    struct codex_check *k = arg;
    k->why = *e;
    engine_child_close(k->child);
    k->child = NULL;
    work_submit(k->world->lane, 0, look, on_looked, k);
}

static void on_known(void *arg)
{
    struct codex_check *k = arg;
    k->task = NULL;
    k->done(k->c, NULL);
    check_free(k);
}

struct codex_check *codex_check_start(struct codex *c, const struct tool_env *place,
                                      void (*done)(struct codex *c, const struct err *why))
{
    static const struct engine_child_cb cb = {.on_line = on_line, .on_end = on_end};
    struct codex_check *k = xcalloc(1, sizeof *k);
    k->world = c->base.world;
    k->done = done;
    k->c = c;
    k->program = xstrdup(c->program);
    k->dir = path_join(c->dir, "schema");
    vec_foreach (it, &c->base.world->checked) {
        if (strcmp(*it, c->program) == 0) {
            k->task = loop_defer(c->base.world->loop, on_known, k);
            return k;
        }
    }
    char *home = xasprintf("CODEX_HOME=%s", c->dir);
    const char *const argv[] = {
        c->program, "app-server", "generate-json-schema", "--experimental", "--out", k->dir, NULL};
    const char *const env[] = {home, NULL};
    struct engine_child_spec q = {.argv = argv,
                                  .env = env,
                                  .place = place,
                                  .dir = c->dir,
                                  .owner = c->base.cb,
                                  .owner_arg = c->base.arg};
    k->child = engine_child_start(c->base.world, &q, &cb, k);
    free(home);
    return k;
}

void codex_check_cancel(struct codex_check *k)
{
    k->cancelled = true;
    if (k->task != NULL) {
        loop_cancel(k->world->loop, k->task);
        check_free(k);
    } else if (k->child != NULL) {
        engine_child_close(k->child);
        check_free(k);
    } // else the lane has it
}
