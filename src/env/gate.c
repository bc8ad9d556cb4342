// Nothing of a project is evaluated or run before its user has trusted it.
//
// The trust book knows a hash over all files of an environment. They have been read twice by now, by the
// builder and for the hash; a file that changed in between could slip through. So every file that the
// builder read must have the bytes of one that was hashed.
//
// What a script sources is hashed too as far as its text shows; anything else that it sources is refused at
// run time, unless the place is followed. No hash covers which `bash` a PATH of the project finds. Where a
// model may have written them, programs get the box that the model's commands have: there they can do no
// more than it could itself. nix and devenv only evaluate, and reach their daemon by a socket, so they run
// without a box; they, and the programs they call, are looked up outside of the project.

#include "env/gate.h"

#include <assert.h>
#include <pthread.h>

#include "base/map.h"
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

// Every file that the builder read has the bytes of one that was hashed.
static bool is_same(const struct env_spec *s, const struct tree *t)
{
    struct map hashed = {0};
    bool same = true;
    vec_foreach (f, &t->files) {
        uint8_t hash[SHA256_SIZE];
        sha256_of(f->bytes, hash);
        map_set(&hashed, (struct str){(const char *)hash, sizeof hash}, f);
    }
    vec_foreach (in, &s->inputs) {
        struct str hash = {(const char *)in->hash, sizeof in->hash};
        same = same && (!in->hashed || map_get(&hashed, hash) != NULL);
    }
    map_fini(&hashed);
    return same;
}

// Where trust is kept for `root`: its repository, or itself.
static int place_of(struct trust_place *p, const char *home, const char *root, struct err *e)
{
    struct err why = {0};
    int rc = trust_place_of(p, home, root, &why);
    if (rc == ERR_NOT_FOUND) {
        *p = (struct trust_place){.root = xstrdup(root), .place = xstrdup(root)};
        return 0;
    }
    return rc == 0 ? 0 : err_set(e, rc, "%s", why.msg);
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
    }
    // Following a place means following what the user writes there, and a sandboxed agent may create a
    // `flake.nix`. So a provider that counts only because its file exists must have existed before; direnv
    // has a list of its own.
    bool found = s->delegate_found && strcmp(s->delegate, "direnv") != 0;
    char token[SHA256_HEX] = "";
    if (found) {
        trust_env_token(s->delegate, token);
    }
    if (answer == TRUST_FOLLOWED && tree->foreign != NULL) {
        answer = TRUST_NO;
        err_set(e, ERR_DENIED, "another user owns or may write '%s'", tree->foreign);
    } else if (answer == TRUST_FOLLOWED && found &&
               trust_ask(book, &place, TRUST_ENV, ".afloat/env.toml", token) != TRUST_YES) {
        answer = TRUST_NO;
        err_set(e, ERR_DENIED, "'%s' was not there when you trusted it", s->delegate_file);
    }
    trust_place_fini(&place);
    trust_close(book);
    return answer;
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
    bool runs = s->script != NULL || s->delegate != NULL;
    bool good = (answer == TRUST_FOLLOWED && (!g->unattended || !runs)) ||
                (answer == TRUST_YES && is_same(s, &tree));
    if (good && answer == TRUST_YES && (g->unattended || !follows)) {
        s->exact = true; // a script may source more than its text shows
        vec_foreach (f, &tree.files) {
            vec_push(&s->allowed, env__path(&s->arena, s->root, f->path));
        }
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

static int check(struct env_spec *s, void *arg, struct err *e)
{
    struct guard *g = arg;
    int rc = decide(s, g, e);
    s->wary = g->unattended;
    if (rc != 0 || !g->unattended || (s->script == NULL && s->delegate == NULL)) {
        return rc; // nix and devenv count too: they have a shell hook
    }
    struct box_policy p = {.mode = BOX_WORKSPACE_WRITE,
                           .working_dir = s->root,
                           .home = g->home,
                           .runtime = g->runtime};
    pthread_mutex_lock(&g->lock);
    bool boxed = g->boxed;
    const char **hide = arena_calloc(&s->arena, g->hide.n + 1, sizeof *hide);
    for (size_t i = 0; i < g->hide.n; i++) {
        hide[i] = arena_strdup(&s->arena, str_of(g->hide.p[i]));
    }
    p.network = g->network;
    pthread_mutex_unlock(&g->lock);
    p.hide = hide;
    return boxed ? box_new(&s->box, &p, e) : 0;
}

void env_gate_trust_init(struct env_gate *g, const char *home)
{
    struct guard *guard = xcalloc(1, sizeof *guard);
    guard->home = xstrdup(home);
    pthread_mutex_init(&guard->lock, NULL);
    *g = (struct env_gate){.check = check, .arg = guard};
}

void env_gate_trust_fini(struct env_gate *g)
{
    struct guard *guard = g->arg;
    if (guard != NULL) {
        vec_fini_each(&guard->hide, free);
        pthread_mutex_destroy(&guard->lock);
        free(guard->runtime);
        free(guard->home);
        free(guard);
    }
    *g = (struct env_gate){0};
}

void env_gate_unattended_init(struct env_gate *g, const char *home, const char *runtime)
{
    env_gate_trust_init(g, home);
    struct guard *guard = g->arg;
    guard->unattended = guard->boxed = true;
    guard->runtime = xstrdup(runtime);
}

void env_gate_unattended_set(struct env_gate *g, bool boxed, bool network, const char *const *hide)
{
    struct guard *guard = g->arg;
    assert(guard->unattended);
    pthread_mutex_lock(&guard->lock);
    guard->boxed = boxed;
    guard->network = network;
    vec_fini_each(&guard->hide, free);
    for (; *hide != NULL; hide++) {
        vec_push(&guard->hide, xstrdup(*hide));
    }
    pthread_mutex_unlock(&guard->lock);
}

/// Does the directory hold more than an environment? What cannot be read counts as more.
static bool brings_more(const char *dir)
{
    struct trust_scan s;
    bool more = trust_scan(&s, dir, NULL) != 0;
    vec_foreach (it, &s.items) {
        more |= it->kind != TRUST_ENV;
    }
    trust_scan_fini(&s);
    return more;
}

bool env_gate_may_follow(const char *home, const char *root)
{
    struct trust *book;
    struct trust_place p = {0};
    bool may = trust_open(&book, home, NULL) == 0 && place_of(&p, home, root, NULL) == 0;
    if (may && !trust_follows(book, &p)) { // the root may be a worktree of the place
        may = !brings_more(p.root) && (strcmp(p.root, p.place) == 0 || !brings_more(p.place));
    }
    trust_place_fini(&p);
    trust_close(book);
    return may;
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
    if (rc == 0 && follow && !env_gate_may_follow(home, root)) {
        rc = err_set(
            e, ERR_DENIED,
            "'%s' brings more than its environment: 'afloat trust --follow' follows all of it",
            place.root);
    }
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
