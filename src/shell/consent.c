// Asking whether a project's environment may be used.
//
//     the gate lets it pass ──> continue
//     else ── terminal ──> [f]ollow [o]nce [n]o [?] ── f, o ──> stored, continue
//          │               (no [f] where following would trust more than the environment)
//          └─ none, n ──> ERR_DENIED with the command to type
//
// Later builds ask the gate alone. If a file of a place that is not followed has changed, the build fails with a
// message that says what to type, and the shell keeps its environment.

#include "shell/consent.h"

#include <unistd.h>

#include "base/visible.h"
#include "trust/scan.h"

enum { ANSWER_BYTES = 256, SHOW_MAX = 256 << 10 };

/// Show the files that the question is about: those that are hashed. Neither names nor contents are trusted yet.
static void show(const char *root)
{
    struct tree t;
    struct err e = {0};
    struct buf text = {.max = SIZE_MAX};
    if (trust_env_read(&t, root, &e) < 0) {
        visible_say("cannot show the environment of '%s': %s", root, e.msg);
        return;
    }
    vec_foreach (f, &t.files) {
        buf_addz(&text, "---- ");
        visible_add(&text, str_of(f->path), false);
        buf_addc(&text, '\n');
        if (f->bytes.n > SHOW_MAX) {
            buf_addz(&text, "(too long to show)\n");
        } else {
            visible_add(&text, f->bytes, true);
        }
    }
    fputs(buf_z(&text), stderr);
    buf_fini(&text);
    tree_fini(&t);
}

/// `e` says why it may not be used; a no leaves it as it is.
static int ask(const struct home *home, const char *root, struct err *e)
{
    bool follow = env_gate_may_follow(home->dir, root);
    visible_say("'%s' has an environment that is not trusted yet.", root);
    if (!follow) {
        visible_say("It brings more: 'afloat trust --follow' follows all of it.");
    }
    for (;;) {
        char line[ANSWER_BYTES];
        fprintf(stderr, "Use it? %s[o]nce (what is there now), [n]o, [?] show: ",
                follow ? "[f]ollow (now and at every edit: my project), " : "");
        ssize_t n = read(STDIN_FILENO, line, sizeof line);
        struct str said = str_trim((struct str){line, n > 0 ? (size_t)n : 0});
        if (n <= 0 || str_eqz(said, "n") || str_eqz(said, "no")) {
            return e->code;
        }
        if (follow && (str_eqz(said, "f") || str_eqz(said, "follow"))) {
            return env_gate_allow(home->dir, root, true, e);
        }
        if (str_eqz(said, "o") || str_eqz(said, "once")) {
            return env_gate_allow(home->dir, root, false, e);
        }
        if (str_eqz(said, "?")) {
            show(root);
        } // anything else may have been typed for the shell: ask again
    }
}

int consent_get(const struct env_gate *gate, const struct home *home, const char *root,
                bool may_ask, struct err *e)
{
    struct env_spec s;
    struct env_vars base;
    struct arena a = {0};
    struct err ignored;
    env_vars_init(&base, &a);
    env_vars_add_environ(&base, (const char *const *)environ);
    int rc = env_spec_read(&s, root, &base, &ignored); // a broken file: the build will tell
    rc = rc == 0 ? gate->check(&s, gate->arg, e) : 0;
    if (rc == ERR_DENIED && may_ask) {
        rc = ask(home, root, e);
    }
    env_spec_fini(&s);
    env_vars_fini(&base);
    arena_fini(&a);
    return rc;
}
