// Nothing of a project is evaluated or run before its user has trusted it.
//
// The trust book knows a hash over all files of an environment. They were read twice by now, by the
// builder and for the hash; a file that changed in between could slip through. So every file that the
// builder read must have the bytes of one that was hashed.

#include "env/gate.h"

#include "base/path.h"
#include "trust/trust.h"

struct guard {
    char *home;
    bool unattended;
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
        *p = (struct trust_place){xstrdup(root), xstrdup(root)};
        rc = 0;
    }
    return rc;
}

static enum trust_answer ask(const char *home, const char *root, const char *hash, struct err *e)
{
    struct trust *book;
    struct trust_place place = {0};
    enum trust_answer answer = TRUST_NO;
    if (trust_open(&book, home, e) == 0 && place_of(&place, home, root, e) == 0) {
        answer = trust_ask(book, &place, TRUST_ENV, ".afloat/env.toml", hash);
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

static int check(struct env_spec *s, void *arg, struct err *e)
{
    const struct guard *g = arg;
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
    enum trust_answer answer = ask(g->home, s->root, tree.hash, &why);
    bool good = (answer == TRUST_FOLLOWED && may_follow(g, s)) ||
                (answer == TRUST_YES && is_same(s, &tree));
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

static void open_gate(struct env_gate *g, const char *home, bool unattended)
{
    struct guard *guard = xmalloc(sizeof *guard);
    *guard = (struct guard){.home = xstrdup(home), .unattended = unattended};
    *g = (struct env_gate){.check = check, .arg = guard};
}

void env_gate_trust_init(struct env_gate *g, const char *home)
{
    open_gate(g, home, false);
}

void env_gate_trust_fini(struct env_gate *g)
{
    struct guard *guard = g->arg;
    if (guard != NULL) {
        free(guard->home);
        free(guard);
    }
    *g = (struct env_gate){0};
}

void env_gate_unattended_init(struct env_gate *g, const char *home)
{
    open_gate(g, home, true);
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
