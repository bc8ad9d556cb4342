// Start a keeper: the launcher starts one process, which reads what to run, starts the keeper, reports that it
// runs, and ends. So the keeper is no child of the hub.

#include <unistd.h>

#include "base/path.h"
#include "base/random.h"
#include "keep/terms_int.h"
#include "loop/proc.h"

enum { START_MS = 10000, ANSWER_BYTES = 8192 };

struct starting {
    struct terms *all;
    char id[64];
    struct proc *proc;
    struct timer late;
    struct buf answer;
    terms_started *done;
    void *arg;
};

void terms_new_id(char out[13])
{
    random_hex(out, 13);
}

static void forget(struct starting *s)
{
    timer_stop(&s->late);
    vec_drop(&s->all->starting, s);
    terms__free_closed(s->all);
    buf_fini(&s->answer);
    free(s);
}

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct starting *s = arg;
    (void)p;
    if (which == 1) {
        buf_adds(&s->answer, bytes);
    }
}

/// What the process said, or that it said nothing.
static int read_answer(struct starting *s, const struct proc_exit *x, struct err *e)
{
    struct arena a = {0};
    struct json *v = NULL;
    int rc = 0;
    if (!x->launched) {
        rc = err_set(e, x->code, "cannot start a keeper: %s", x->why != NULL ? x->why : "unknown");
    } else if (json_parse(&v, &a, str_trim(buf_str(&s->answer)), NULL, NULL) < 0) {
        rc = err_set(e, ERR_CORRUPT, "the keeper did not start");
    } else if (json_get(v, "error") != NULL) {
        struct str why = json_get_text(v, "error");
        rc = err_set(e, (int)json_int(json_get(v, "code"), ERR_INVALID), STR_FMT, STR_ARG(why));
    }
    arena_fini(&a);
    return rc < 0 || rc == 0 ? rc : ERR_INVALID;
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct starting *s = arg;
    struct err e = {0};
    (void)p;
    if (s->done != NULL) {
        int rc = read_answer(s, x, &e);
        if (rc == 0) {
            rc = terms__connect(s->all, s->id, s->done, s->arg, &e);
        }
        if (rc < 0) {
            s->done(s->arg, NULL, &e);
        }
    }
    forget(s);
}

static void on_late(void *arg)
{
    struct starting *s = arg;
    proc_kill(s->proc, SIGKILL);
}

static void write_env(struct jw *w, const struct terms_spec *o)
{
    jw_kobj(w, "env");
    json_foreach_member (m, o->env) {
        bool ours = false;
        for (size_t i = 0; o->more != NULL && o->more[i] != NULL; i += 2) {
            ours |= str_eqz(m->key, o->more[i]);
        }
        if (!ours) {
            jw_key_str(w, m->key);
            jw_value(w, &m->value);
        }
    }
    for (size_t i = 0; o->more != NULL && o->more[i] != NULL; i += 2) {
        jw_kstrz(w, o->more[i], o->more[i + 1]);
    }
    jw_end_obj(w);
}

static void write_spec(struct terms *all, const char *id, const struct terms_spec *o,
                       struct buf *out)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "id", id);
    jw_key(&w, "socket");
    jw_strf(&w, "%s/%s.sock", all->dir, id);
    jw_kstrz(&w, "cmd", o->cmd);
    if (o->args != NULL) {
        jw_kvalue(&w, "args", o->args);
    }
    jw_kstrz(&w, "cwd", o->cwd);
    jw_kint(&w, "rows", o->rows);
    jw_kint(&w, "cols", o->cols);
    jw_kint(&w, "history", o->history);
    jw_kint(&w, "abandon_s", o->abandon_s);
    jw_key(&w, "about");
    jw_raw(&w, o->about.n != 0 ? o->about : STR("{}"));
    write_env(&w, o);
    jw_end_obj(&w);
}

static int spawn(struct starting *s, struct str spec, struct err *e)
{
    static const struct proc_cb cb = {.on_output = on_output, .on_exit = on_exit_cb};
    static const char *const env[] = {"LC_ALL=C.UTF-8", NULL};
    char *program = path_own_program(e);
    if (program == NULL) {
        return e->code;
    }
    // the small program beside ours is the same; where it is missing we do it
    char *small = xasprintf(STR_FMT "/afloat-keep", STR_ARG(path_dir(str_of(program))));
    const char *const ours[] = {program, "keep", NULL}, *const theirs[] = {small, NULL};
    const char *const *argv = access(small, X_OK) == 0 ? theirs : ours;
    const struct proc_opts o = {.argv = argv, .env = env, .in = PROC_PIPE, .out = PROC_PIPE};
    int rc = proc_spawn(&s->proc, s->all->opts.loop, &o, &cb, s, e);
    free(small);
    free(program);
    if (rc == 0) {
        rc = proc_write(s->proc, spec);
        proc_close_stdin(s->proc);
        timer_start(&s->late, rc == 0 ? START_MS : 0); // too large to be sent: the end
    }
    return s->proc != NULL ? 0 : rc;
}

void terms_start(struct terms *all, const char *id, const struct terms_spec *o, terms_started *done,
                 void *arg)
{
    struct starting *s = xcalloc(1, sizeof *s);
    struct buf spec = {.max = SIZE_MAX};
    struct err e = {0};
    *s = (struct starting){.all = all, .done = done, .arg = arg};
    snprintf(s->id, sizeof s->id, "%s", id);
    buf_init(&s->answer, ANSWER_BYTES);
    timer_init(&s->late, all->opts.loop, on_late, s);
    vec_push(&all->starting, s);
    write_spec(all, id, o, &spec);
    if (spawn(s, buf_str(&spec), &e) < 0) {
        done(arg, NULL, &e);
        forget(s);
    }
    buf_fini(&spec);
}

void terms__stop_starting(struct terms *all)
{
    struct err e = {0};
    err_set(&e, ERR_UNREACHABLE, "the hub is stopping");
    vec_foreach (at, &all->starting) {
        struct starting *s = *at;
        if (s->done != NULL) {
            s->done(s->arg, NULL, &e);
            s->done = NULL;
        }
        proc_kill(s->proc, SIGKILL);
    }
}
