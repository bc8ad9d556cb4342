// Nothing of a project is evaluated or run before its user has trusted it.
//
// The trust book knows a hash over all files of an environment. They were read twice by now, by the
// builder and for the hash; a file that changed in between could slip through. So every file that the
// builder read must have the bytes of one that was hashed.
//
// What a script sources is hashed too as far as its text says; what else it sources is refused when it comes
// to it, unless the place is followed. Which `bash` a PATH of the project finds no hash says. Where a
// model may have written them, programs get the box that its commands have: there they can do no more than it
// could itself. nix and devenv only evaluate, and reach their daemon by a socket, so they get none; they, and
// what they call, are looked for outside of the project.

#include "env/gate.h"

#include <pthread.h>

#include "base/path.h"
#include "env/spec_int.h"
#include "sandbox/box.h"
#include "trust/trust.h"

struct guard {
    char *home;
    bool unattended;
    char *runtime;        // NULL: not unattended
    pthread_mutex_t lock; // of what follows: builds read it on workers
    bool boxed, network;
    vec(char *) hide;
};

static bool is_hashed(const struct tree *t, const uint8_t hash[SHA256_SIZE])
{
    vec_foreach (f, &t->files) {
        uint8_t theirs[SHA256_SIZE];
        sha256_of(f->bytes, theirs);
        if (memcmp(theirs, hash, SHA256_SIZE) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_same(const struct env_spec *s, const struct tree *t)
{
    vec_foreach (in, &s->inputs) {
        if (in->hashed && !is_hashed(t, in->hash)) {
            return false;
        }
    }
    return true;
}

// Where trust is kept for `root`: its repository, or itself.
static int place_of(struct trust_place *p, const char *home, const char *root, struct err *e)
{
    int rc = trust_place_of(p, home, root, e);
    if (rc == ERR_NOT_FOUND) {
        *p = (struct trust_place){.root = xstrdup(root), .place = xstrdup(root)};
        rc = 0;
    }
    return rc;
}

/// To follow a place is to follow what the user writes there, and a sandboxed agent may make a `flake.nix`
/// where none was. So a provider that counts because its file is there must have been there before.
static bool is_new_provider(const struct trust *book, const struct trust_place *p,
                            const struct env_spec *s)
{
    char token[SHA256_HEX];
    if (!s->delegate_found || strcmp(s->delegate, "direnv") == 0) { // which has a list of its own
        return false;
    }
    trust_env_token(s->delegate, token);
    return trust_ask(book, p, TRUST_ENV, ".afloat/env.toml", token) != TRUST_YES;
}

static enum trust_answer ask(const char *home, const struct env_spec *s, const struct tree *tree,
                             bool *follows, struct err *e)
{
    struct trust *book;
    struct trust_place place = {0};
    enum trust_answer answer = TRUST_NO;
    if (trust_open(&book, home, e) == 0 && place_of(&place, home, s->root, e) == 0) {
        answer = trust_ask(book, &place, TRUST_ENV, ".afloat/env.toml", tree->hash);
        *follows = trust_follows(book, &place);
        if (answer == TRUST_FOLLOWED && tree->foreign != NULL) {
            answer = TRUST_NO;
            err_set(e, ERR_DENIED, "another user owns or may write '%s'", tree->foreign);
        } else if (answer == TRUST_FOLLOWED && is_new_provider(book, &place, s)) {
            answer = TRUST_NO;
            err_set(e, ERR_DENIED, "'%s' was not there when you trusted it", s->delegate_file);
        }
    }
    trust_place_fini(&place);
    trust_close(book);
    return answer;
}

/// Of a followed place: may what is there now be used?
static bool may_follow(const struct guard *g, const struct env_spec *s)
{
    return !g->unattended || (s->script == NULL && s->delegate == NULL);
}

/// What was trusted is all that may run: a script may source more than its text shows.
static void allow_only(struct env_spec *s, const struct tree *t)
{
    s->exact = true;
    vec_foreach (f, &t->files) {
        vec_push(&s->allowed, env__path(&s->arena, s->root, f->path));
    }
}

static int decide(struct env_spec *s, const struct guard *g, struct err *e)
{
    struct tree tree;
    struct err why = {0};
    bool direnv = s->delegate != NULL && strcmp(s->delegate, "direnv") == 0;
    if (!s->described && (s->delegate == NULL || direnv)) {
        return 0;
    }
    char *book = path_join(g->home, "trust.json");
    env_spec_add_input(s, book);
    free(book);
    int rc = trust_env_read(&tree, s->root, e);
    if (rc != 0) {
        return rc;
    }
    bool follows = false;
    enum trust_answer answer = ask(g->home, s, &tree, &follows, &why);
    bool good = (answer == TRUST_FOLLOWED && may_follow(g, s)) ||
                (answer == TRUST_YES && is_same(s, &tree));
    if (good && answer == TRUST_YES && (g->unattended || !follows)) {
        allow_only(s, &tree);
    }
    tree_fini(&tree);
    if (good) {
        return 0;
    }
    return err_set(
        e, ERR_DENIED,
        "the environment of '%s' is not trusted%s%s%s: look at it, then type 'afloat env allow'",
        path_base(str_of(s->root)).p, answer == TRUST_FOLLOWED ? " as its programs are now" : "",
        why.code != 0 ? ": " : "", why.msg);
}

/// What is hidden in the box now, as a list of the spec's.
static const char *const *copy_hide(const struct guard *g, struct arena *a)
{
    const char **list = arena_calloc(a, g->hide.n + 1, sizeof *list);
    for (size_t i = 0; i < g->hide.n; i++) {
        list[i] = arena_strdup(a, str_of(g->hide.p[i]));
    }
    return list;
}

static int make_box(struct env_spec *s, struct guard *g, struct err *e)
{
    struct box_policy p = {.mode = BOX_WORKSPACE_WRITE,
                           .working_dir = s->root,
                           .home = g->home,
                           .runtime = g->runtime};
    pthread_mutex_lock(&g->lock);
    bool boxed = g->boxed;
    p.network = g->network;
    p.hide = copy_hide(g, &s->arena);
    pthread_mutex_unlock(&g->lock);
    return boxed ? box_new(&s->box, &p, e) : 0;
}

static bool runs_programs(const struct env_spec *s)
{
    return s->script != NULL || s->delegate != NULL; // nix and devenv: the shell hook
}

static int check(struct env_spec *s, void *arg, struct err *e)
{
    struct guard *g = arg;
    int rc = decide(s, g, e);
    s->wary = g->unattended;
    return rc == 0 && g->unattended && runs_programs(s) ? make_box(s, g, e) : rc;
}

static struct guard *open_gate(struct env_gate *g, const char *home)
{
    struct guard *guard = xcalloc(1, sizeof *guard);
    guard->home = xstrdup(home);
    pthread_mutex_init(&guard->lock, NULL);
    *g = (struct env_gate){.check = check, .arg = guard};
    return guard;
}

static void clear_hide(struct guard *g)
{
    vec_foreach (path, &g->hide) {
        free(*path);
    }
    g->hide.n = 0;
}

void env_gate_trust_init(struct env_gate *g, const char *home)
{
    open_gate(g, home);
}

void env_gate_trust_fini(struct env_gate *g)
{
    struct guard *guard = g->arg;
    if (guard != NULL) {
        clear_hide(guard);
        vec_fini(&guard->hide);
        pthread_mutex_destroy(&guard->lock);
        free(guard->runtime);
        free(guard->home);
        free(guard);
    }
    *g = (struct env_gate){0};
}

void env_gate_unattended_init(struct env_gate *g, const char *home, const char *runtime)
{
    struct guard *guard = open_gate(g, home);
    guard->unattended = guard->boxed = true;
    guard->runtime = xstrdup(runtime);
}

void env_gate_unattended_set(struct env_gate *g, bool boxed, bool network, const char *const *hide,
                             size_t n_hide)
{
    struct guard *guard = g->arg;
    pthread_mutex_lock(&guard->lock);
    guard->boxed = boxed;
    guard->network = network;
    clear_hide(guard);
    for (size_t i = 0; i < n_hide; i++) {
        vec_push(&guard->hide, xstrdup(hide[i]));
    }
    pthread_mutex_unlock(&guard->lock);
}

int env_gate_allow(const char *home, const char *root, bool follow, struct err *e)
{
    struct trust *book;
    struct trust_place place = {0};
    struct trust_item item = {.kind = TRUST_ENV, .name = "env", .path = ".afloat/env.toml"};
    int rc = trust_env_read(&item.tree, root, e);
    if (rc != 0) {
        return rc;
    }
    rc = trust_open(&book, home, e);
    rc = rc == 0 ? place_of(&place, home, root, e) : rc;
    rc = rc == 0 ? trust_add(book, &place, &item, 1, follow, e) : rc;
    trust_place_fini(&place);
    trust_close(book);
    tree_fini(&item.tree);
    return rc;
}

int env_gate_deny(const char *home, const char *root, struct err *e)
{
    struct trust *book;
    struct trust_place place = {0};
    int rc = trust_open(&book, home, e);
    rc = rc == 0 ? place_of(&place, home, root, e) : rc;
    rc = rc == 0 ? trust_remove(book, &place, e) : rc;
    trust_place_fini(&place);
    trust_close(book);
    return rc;
}
