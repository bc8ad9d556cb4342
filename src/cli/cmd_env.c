// `afloat env`: the environment of a project.
//
//     in an Afloat shell, or when one of the same project runs ── ask it (shell/ctl.h)
//     elsewhere ──────────────────────────────────────────────── build the environment once, here
//
// `show` and `diff` always build: they print what a new shell would get, based on the environment outside
// of ours.

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/path.h"
#include "base/visible.h"
#include "cli/env_once.h"
#include "cli/show.h"
#include "env/gate.h"
#include "shell/ctl.h"

// The wrapper's directory: of the shell we are in, else of one of the same project. NULL: none.
static char *find_shell(struct cli *c)
{
    struct env_project p;
    char *dir = ctl_find();
    if (dir == NULL && env_project_find(&p, ".", NULL) == 0) {
        dir = ctl_find_project(c->home.runtime, p.root);
        env_project_fini(&p);
    }
    return dir;
}

// Ask the wrapper. 0 with `answer` (in `arena`), or a negative code.
static int call_shell(const char *dir, const char *op, const char *arg, struct arena *arena,
                      struct json **answer, struct err *e)
{
    struct buf text = {.max = CTL_ANSWER_MAX};
    int rc = ctl_call(dir, op, arg, &text, e);
    struct str kept = arena_str(arena, str_trim(buf_str(&text)));
    buf_fini(&text);
    return rc == 0 ? json_parse(answer, arena, kept, NULL, e) : rc;
}

static int wrapper_pid(const char *dir)
{
    struct arena a = {0};
    struct json *status = NULL;
    int pid = 0;
    if (dir != NULL && call_shell(dir, "status", NULL, &a, &status, NULL) == 0) {
        int64_t n = json_int(json_get(status, "pid"), 0);
        pid = n > 0 && n < INT_MAX ? (int)n : 0;
    }
    arena_fini(&a);
    return pid;
}

static int fail_build(struct cli *c, const struct env_once *o)
{
    struct str rest = str_of(o->error), first = str_cut(&rest, '\n');
    out_error(&c->out, STR_FMT, STR_ARG(first));
    if (rest.n != 0) {
        struct buf text = {.max = SIZE_MAX};
        visible_add(&text, rest, true);
        buf_addz(&text, str_ends(rest, "\n") ? "" : "\n");
        fputs(buf_z(&text), stderr);
        buf_fini(&text);
    }
    return cli__exit_of(o->code);
}

/// Print `json`, which takes a line end.
static void print_json(struct cli *c, struct buf *json)
{
    buf_addc(json, '\n');
    out_add(&c->out, buf_str(json));
}

// Build for a command that needs the result; an exit code other than 0 has been explained.
static int build(struct cli *c, struct env_once *o)
{
    struct err e = {0};
    char *shell = ctl_find();
    int rc = env_once_build(o, c, NULL, wrapper_pid(shell), &e);
    free(shell);
    if (rc != 0) {
        return cli__fail(c, &e);
    }
    return o->result != NULL ? EXIT_OK : fail_build(c, o);
}

// ---- show and diff -----------------------------------------------------------------------------

struct change {
    const char *name, *before, *after; // NULL: not set
};
typedef vec(struct change) changes;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct change *)a)->name, ((const struct change *)b)->name);
}

static void add_change(changes *all, const struct env_once *o, char *const *after, const char *name)
{
    struct change ch = {name, str_env((const char *const *)o->outer, name),
                        str_env((const char *const *)after, name)};
    vec_foreach (old, all) {
        if (strcmp(old->name, name) == 0) {
            return;
        }
    }
    vec_push(all, ch);
}

// What the environment changes, by name. `after` must outlive it.
static void find_changes(changes *all, const struct env_once *o, char *const *after)
{
    const struct env_result *r = o->result;
    vec_foreach (v, &r->set) {
        add_change(all, o, after, v->name);
    }
    vec_foreach (name, &r->unset) {
        add_change(all, o, after, *name);
    }
    vec_foreach (l, &r->prepend) {
        add_change(all, o, after, l->name);
    }
    vec_foreach (l, &r->append) {
        add_change(all, o, after, l->name);
    }
    if (all->n != 0) {
        qsort(all->p, all->n, sizeof *all->p, by_name);
    }
}

/// `show` prints NAME=value, `diff` a sign and the name, with --values the value too.
static void print_changes(struct cli *c, const changes *all)
{
    bool diff = strcmp(c->cmd->verb, "diff") == 0, values = args_has(&c->args, FLAG_VALUES);
    vec_foreach (ch, all) {
        if (!diff && ch->after != NULL) {
            out_addf(&c->out, "%s=%s\n", ch->name, ch->after);
        } else if (diff) {
            char sign = ch->after == NULL ? '-' : ch->before == NULL ? '+' : '~';
            out_addf(&c->out, "%c %s", sign, ch->name);
            if (values && ch->after != NULL) {
                out_add(&c->out, STR("="));
                out_text(&c->out, str_of(ch->after));
            }
            out_add(&c->out, STR("\n"));
        }
    }
}

static void print_changes_json(struct cli *c, const struct env_once *o, const changes *all)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "project", o->project.root);
    jw_kstrz(&w, "provider", o->result->provider);
    jw_kobj(&w, "set");
    vec_foreach (ch, all) {
        if (ch->after != NULL) {
            jw_kstrz(&w, ch->name, ch->after);
        }
    }
    jw_end_obj(&w);
    jw_karr(&w, "unset");
    vec_foreach (ch, all) {
        if (ch->after == NULL) {
            jw_strz(&w, ch->name);
        }
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    print_json(c, &text);
    buf_fini(&text);
}

// `show` and `diff`
int cmd_env_show(struct cli *c)
{
    struct env_once o;
    int code = build(c, &o);
    if (code == EXIT_OK) {
        changes all = {0};
        char **after = env_result_environ(o.result, (const char *const *)o.outer);
        find_changes(&all, &o, after);
        if (c->json) {
            print_changes_json(c, &o, &all);
        } else {
            print_changes(c, &all);
        }
        vec_fini(&all);
        free(after);
    }
    env_once_fini(&o);
    return code;
}

// ---- error, inputs, status ---------------------------------------------------------------------

/// What a shell would answer to `op`, from a build of our own.
static void write_once(struct jw *w, const char *op, const struct env_once *o)
{
    static const char *const kinds[] = {
        [ENV_FILE] = "file", [ENV_DIR] = "dir", [ENV_MISSING] = "missing"};
    jw_obj(w);
    if (strcmp(op, "inputs") == 0) {
        jw_karr(w, "inputs");
        for (size_t i = 0; i < o->n_inputs; i++) {
            jw_obj(w);
            jw_kstrz(w, "path", o->inputs[i].path);
            jw_kstrz(w, "kind", kinds[o->inputs[i].kind]);
            jw_end_obj(w);
        }
        jw_end_arr(w);
    } else if (strcmp(op, "status") == 0) {
        jw_kstrz(w, "project", o->project.root);
        jw_kstrz(w, "state",
                 o->result != NULL       ? "ready"
                 : o->code == ERR_DENIED ? "untrusted"
                                         : "failed");
        jw_kstrz(w, "provider", o->result != NULL ? o->result->provider : NULL);
        jw_kint(w, "inputs", (int64_t)o->n_inputs);
    }
    if (o->error != NULL || strcmp(op, "error") == 0) {
        jw_kstrz(w, "error", o->error);
    }
    jw_end_obj(w);
}

/// Ask the shell of this project, or build once where there is none.
static int look(struct cli *c, const char *op, struct arena *a, struct json **answer, struct err *e)
{
    struct env_once o = {0};
    struct buf text = {.max = SIZE_MAX};
    char *dir = find_shell(c);
    if (dir != NULL) {
        int rc = call_shell(dir, op, NULL, a, answer, e);
        free(dir);
        return rc;
    }
    struct jw w = {.out = &text};
    int rc = env_once_build(&o, c, NULL, 0, e);
    if (rc == 0) {
        write_once(&w, op, &o);
        rc = json_parse(answer, a, arena_str(a, buf_str(&text)), NULL, e);
    }
    buf_fini(&text);
    env_once_fini(&o);
    return rc;
}

/// The first line says what is wrong; `env error` prints all of it.
static void add_error_line(struct buf *out, const struct json *v)
{
    struct str text = json_get_text(v, "error");
    buf_adds(out, str_cut(&text, '\n'));
}

// Print an answer of the shell, as JSON or for people.
static void print_answer(struct cli *c, const struct json *answer)
{
    assert(answer != NULL);
    const struct layout status = {
        .columns = COLUMNS(
            COL("project", TEXT, NULL), COL("state", STATE, NULL), COL("shell", TEXT, NULL),
            COL("generation", TEXT, NULL), COL("inputs", TEXT, NULL), COL("watching", TEXT, NULL),
            COL_FN("error", TEXT, add_error_line), COL("paused", TEXT, "{paused?yes}"))};
    const struct layout inputs = {
        "inputs", COLUMNS(COL("PATH", ID, "{path} ({kind=missing?missing})||{path}")), NULL};
    struct buf text = {.max = SIZE_MAX};
    if (c->json) {
        json_write(&text, answer, 0);
        print_json(c, &text);
    } else if (strcmp(c->cmd->verb, "error") == 0) {
        for (struct str rest = str_trim(json_get_text(answer, "error")); rest.n != 0;) {
            out_text(&c->out, str_cut(&rest, '\n'));
            out_add(&c->out, STR("\n"));
        }
    } else {
        show_answer(c, strcmp(c->cmd->verb, "inputs") == 0 ? &inputs : &status, answer);
    }
    buf_fini(&text);
}

// `status`, `inputs` and `error`
int cmd_env_look(struct cli *c)
{
    struct arena a = {0};
    struct json *answer = NULL;
    struct err e = {0};
    int rc = look(c, c->cmd->verb, &a, &answer, &e);
    if (rc == 0) {
        print_answer(c, answer);
    }
    arena_fini(&a);
    return rc == 0 ? EXIT_OK : cli__fail(c, &e);
}

// ---- what only a running shell can do ------------------------------------------------------------

int cmd_env_tell(struct cli *c)
{
    struct arena a = {0};
    struct json *answer = NULL;
    struct err e = {0};
    const char *op = c->cmd->verb;
    char *dir = find_shell(c);
    int rc = dir == NULL
                 ? err_set(&e, ERR_NOT_FOUND,
                           "no Afloat shell runs in this project: start one with 'afloat shell'")
                 : call_shell(dir, op, strcmp(op, "reload") == 0 ? "force" : NULL, &a, &answer, &e);
    if (rc == 0) {
        print_answer(c, answer);
        rc = str_eqz(json_get_text(answer, "state"), "failed") && strcmp(op, "reload") == 0
                 ? err_set(&e, ERR_INVALID, "the environment failed: 'afloat env error' says why")
                 : 0;
    }
    arena_fini(&a);
    free(dir);
    return rc == 0 ? EXIT_OK : cli__fail(c, &e);
}

static int task_in_shell(struct cli *c, const char *dir, const char *name)
{
    struct arena a = {0};
    struct json *answer = NULL;
    struct err e = {0};
    int rc = call_shell(dir, "task", name, &a, &answer, &e);
    int64_t code = json_int(json_get(answer, "exit"), 0);
    struct str failed = json_get_text(answer, "error");
    out_add(&c->out, json_get_text(answer, "output"));
    if (rc == 0 && failed.n != 0) {
        out_error(&c->out, STR_FMT, STR_ARG(failed));
    }
    if (rc == 0 && json_bool(json_get(answer, "queued"), false)) {
        out_note(&c->out, "task %s runs at the next prompt", name);
    }
    arena_fini(&a);
    return rc != 0 ? cli__fail(c, &e) : code == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_env_task(struct cli *c)
{
    const char *name = args_word(&c->args, 0);
    char *dir = find_shell(c);
    if (dir != NULL) {
        int code = task_in_shell(c, dir, name);
        free(dir);
        return code;
    }
    struct env_once o;
    int code = build(c, &o);
    code = code == EXIT_OK ? env_once_task(&o, c, name) : code;
    env_once_fini(&o);
    return code;
}

// ---- trust, and a first file ---------------------------------------------------------------------

// `allow` and `deny`
int cmd_env_trust(struct cli *c)
{
    struct env_project p;
    struct err e = {0};
    const char *dir = args_word(&c->args, 0);
    bool allow = strcmp(c->cmd->verb, "allow") == 0, follow = args_has(&c->args, FLAG_FOLLOW);
    int rc = env_project_find(&p, dir != NULL ? dir : ".", &e);
    rc = rc == 0 ? home_prepare(&c->home, &e) : rc;
    if (rc == 0 && allow) {
        rc = env_gate_allow(c->home.dir, p.root, follow, &e);
    } else if (rc == 0) {
        rc = env_gate_deny(c->home.dir, p.root, &e);
    }
    if (rc == 0) {
        out_note(&c->out,
                 !allow   ? "the environment of '%s' is no longer trusted, nor is anything else of "
                            "this project"
                 : follow ? "the environment of '%s' is trusted, and all that this project will "
                            "hold, plugins too; 'afloat env deny' takes it back"
                          : "the environment of '%s' is trusted",
                 p.root);
    }
    env_project_fini(&p);
    return rc == 0 ? EXIT_OK : cli__fail(c, &e);
}

static const char template[] = "# The environment of this project: 'afloat shell' enters it.\n"
                               "# dotenv = [\".env\"]\n"
                               "# script = \"env.sh\"\n"
                               "\n"
                               "[env]\n"
                               "# NAME = \"value\"\n"
                               "# HOME_BIN = \"${HOME}/bin\"\n"
                               "\n"
                               "[path]\n"
                               "prepend = [\"bin\"]\n"
                               "\n"
                               "# [[task]]\n"
                               "# name = \"deps\"\n"
                               "# run = \"make deps\"\n"
                               "# status = \"test -d deps\"\n";

int cmd_env_init(struct cli *c)
{
    struct err e = {0};
    int code = EXIT_OK, rc = 0;
    char *cwd = cli__here(c, &code);
    if (cwd == NULL) {
        return code;
    }
    char *dir = path_join(cwd, ".afloat"), *file = path_join(dir, "env.toml");
    if (access(file, F_OK) == 0) {
        rc = err_set(&e, ERR_CONFLICT, "'%s' is there already", file);
    }
    rc = rc == 0 ? path_mkdirs(dir, 0755, &e) : rc;
    rc = rc == 0 ? path_write_atomic(file, str_of(template), 0644, &e) : rc;
    rc = rc == 0 ? home_prepare(&c->home, &e) : rc;
    bool follow = rc == 0 && env_gate_may_follow(c->home.dir, cwd);
    rc = rc == 0 ? env_gate_allow(c->home.dir, cwd, follow, &e) : rc;
    if (rc == 0) {
        out_addf(&c->out, "%s\n", file);
        out_note(&c->out, follow
                              ? "trusted, now and after every edit; 'afloat env deny' takes it back"
                              : "trusted as it is now; after an edit type 'afloat env allow', or "
                                "'afloat trust --follow' if all of this project is yours");
    }
    free(cwd);
    free(dir);
    free(file);
    return rc == 0 ? EXIT_OK : cli__fail(c, &e);
}
