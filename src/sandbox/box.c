// From what a session asks for to the rules of its box.
//
//     policy ── grants ──────> w  the working directory and `writable`
//                              r, k  their .git and .afloat (box_git.c)
//                              h  the home of Afloat, its sockets, `hide`
//                              r  the folders of the home that a command may read
//            ── in order (box_rules.c) ──> the launcher, and the questions below
//
// The home of Afloat is hidden whole, with holes, instead of hiding its secrets one by one: a file that is
// replaced by rename while a command runs would come out from under its mount.

#include "sandbox/box.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "sandbox/box_int.h"
#include "sandbox/walk_int.h"

static const char *const mode_names[] = {"read-only", "workspace-write", "danger-full-access"};

/// What can be read in the home of Afloat.
static const char *const readable[] = {"plugins", "shared", "profiles", "lua", "skills", "bots"};

/// Sockets of services that do what a command may not. Without network none can be reached anyway.
static const char *const sockets[] = {
    "/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio",         "/run/libvirt",
    "/run/dbus",        "/run/systemd",    "/run/user",   "/run/snapd.socket",
};

// ---- from the policy ---------------------------------------------------------------------------

static char *real_path(const char *path)
{
    char *expanded = path_expand_home(path);
    char *real = realpath(expanded, NULL);
    free(expanded);
    return real;
}

/// A worktree of ours is in the home, and is the only place there that a command may write.
static bool is_own_worktree(const struct box *b, const char *path)
{
    char *trees = b->home != NULL ? path_join(b->home, "worktrees") : NULL;
    bool own = trees != NULL && box__beneath(path, trees) && strcmp(path, trees) != 0;
    free(trees);
    return own;
}

static int check_writable(const struct box *b, const char *path, struct err *e)
{
    if (strcmp(path, "/") == 0) {
        return err_set(e, ERR_DENIED,
                       "'/' cannot be opened for writing in parts: name a directory, or use the "
                       "sandbox mode danger-full-access");
    }
    if (is_own_worktree(b, path)) {
        return 0;
    }
    if ((b->home != NULL && box__beneath(path, b->home)) || box__in_repository(path) ||
        path_has_part(path, ".afloat")) {
        return err_set(e, ERR_DENIED,
                       "tools may not write '%s': choose another directory, or use the "
                       "sandbox mode read-only",
                       path);
    }
    return 0;
}

static int add_writable(struct box *b, const struct grant *g, struct err *e)
{
    assert(g->path[0] == '/');
    int rc = check_writable(b, g->path, e);
    if (rc == 0) {
        box__add_grant(b, 'w', g);
        rc = box__protect(b, g->path, e);
    }
    return rc;
}

/// A box has a `/dev` of its own, with nothing of the machine's.
static int refuse_device(const char *dir, struct err *e)
{
    return !box__beneath(dir, "/dev")
               ? 0
               : err_set(e, ERR_DENIED,
                         "'%s' is in /dev, which a sandbox has for itself: work somewhere else",
                         dir);
}

static int add_writables(struct box *b, const struct box_policy *p, struct grants *grants,
                         struct err *e)
{
    struct grant g;
    int rc = grants_find(grants, p->working_dir, &g, e);
    rc = rc == 0 ? add_writable(b, &g, e) : rc;
    for (size_t i = 0; p->writable != NULL && p->writable[i] != NULL && rc == 0; i++) {
        rc = grants_find(grants, p->writable[i], &g, e);
        if (rc == 0) {
            rc = refuse_device(g.path, e);
            rc = rc == 0 ? add_writable(b, &g, e) : rc;
        } else if (rc == ERR_NOT_FOUND) { // a list for several machines may name what is not here
            rc = 0;
        }
    }
    return rc;
}

/// Make a path readable that is in a place which commands do not see.
static void show(struct box *b, const char *path)
{
    if (box__beneath(path, "/tmp") || is_own_worktree(b, path)) {
        box__add(b, 'r', path);
    }
    box__show_git(b, path);
}

static void add_home(struct box *b, const char *runtime)
{
    char *real = runtime != NULL ? real_path(runtime) : NULL;
    if (b->home != NULL) {
        box__add(b, 'h', b->home);
        for (size_t i = 0; i < ARRAY_LEN(readable); i++) {
            char *path = path_join(b->home, readable[i]);
            char *folder = realpath(path, NULL);
            if (folder != NULL && path_is_dir(folder)) {
                box__add(b, 'r', folder);
            }
            free(folder);
            free(path);
        }
    }
    if (real != NULL) {
        box__add(b, 'h', real);
    }
    free(real);
}

/// Where something hidden is, or would be; NULL when its directory does not exist either.
static char *hidden_path(const char *path)
{
    struct path_walk w;
    char *expanded = path_expand_home(path), *real = NULL;
    int rc = walk__path(&w, expanded, NULL, NULL, NULL);
    if (rc == 0) {
        real = xstrdup(w.real);
    } else if (rc == ERR_NOT_FOUND && w.missing != NULL && w.rest[0] == '\0') {
        real = path_join(w.real, w.missing);
    }
    walk__fini(&w);
    free(expanded);
    return real;
}

static int add_hidden(struct box *b, const char *path, struct err *e)
{
    char *real = hidden_path(path);
    int rc = 0;
    if (real != NULL && box__beneath(b->dir, real)) {
        rc = err_set(e, ERR_DENIED, "'%s' is hidden from tools: work somewhere else", b->dir);
    } else if (real != NULL) {
        box__add(b, 'h', real);
    }
    free(real);
    return rc;
}

static int fill(struct box *b, const struct box_policy *p, struct grants *grants, struct err *e)
{
    assert(b->dir != NULL);
    int rc = refuse_device(b->dir, e);
    b->home = p->home != NULL ? real_path(p->home) : NULL;
    b->tmp_dir = p->tmp_dir != NULL ? real_path(p->tmp_dir) : NULL;
    add_home(b, p->runtime);
    for (size_t i = 0; p->hide != NULL && p->hide[i] != NULL && rc == 0; i++) {
        rc = add_hidden(b, p->hide[i], e);
    }
    for (size_t i = 0; p->network && i < ARRAY_LEN(sockets) && rc == 0; i++) {
        rc = add_hidden(b, sockets[i], e);
    }
    if (b->tmp_dir != NULL) {
        box__add(b, 't', b->tmp_dir);
    }
    char *own = p->own != NULL ? real_path(p->own) : NULL;
    if (own != NULL) {
        box__add(b, 'w', own);
    }
    free(own);
    if (rc == 0 && b->mode == BOX_WORKSPACE_WRITE) {
        rc = add_writables(b, p, grants, e);
    } else {
        // and what could be written in another mode: all of a worktree, when the work is further down in it
        show(b, b->dir);
        for (size_t i = 0; p->writable != NULL && p->writable[i] != NULL; i++) {
            struct grant g;
            if (grants_find(grants, p->writable[i], &g, NULL) == 0) {
                show(b, g.path);
            }
        }
    }
    box__settle(b);
    for (size_t i = 0; p->guard != NULL && p->guard[i] != NULL; i++) {
        box__guard(b, p->guard[i]);
    }
    box__settle(b);
    box__pin(b);
    if (rc == 0 && box__find(b, b->dir)->kind == 'h') {
        rc = err_set(e, ERR_DENIED, "'%s' is hidden from tools: work somewhere else", b->dir);
    }
    if (rc == 0 && b->rules.n > LAUNCH_RULES_MAX) {
        rc = err_set(
            e, ERR_TOO_LARGE,
            "the sandbox would need %zu rules, and takes %d: shorten the lists of directories "
            "to open or hide, or remove worktrees of followed projects",
            b->rules.n, LAUNCH_RULES_MAX);
    }
    box__write(b);
    return rc;
}

static int find_granted(struct box *b, const struct box_policy *p, struct err *e)
{
    struct grant dir;
    b->grants = p->grants == NULL ? grants_new() : NULL;
    struct grants *grants = p->grants != NULL ? p->grants : b->grants;
    int rc = grants_find(grants, p->working_dir, &dir, e);
    if (rc == 0) {
        b->dir = xstrdup(dir.path);
        rc = fill(b, p, grants, e);
    } else if (rc == ERR_NOT_FOUND) {
        rc = err_set(e, rc, "the working directory '%s' is gone", p->working_dir);
    }
    return rc;
}

// ---- questions -------------------------------------------------------------------------------

static const char guard_reason[] = "it runs outside of the sandbox, as a plugin of the hub or in "
                                   "the environment of a followed project; "
                                   "only the user changes it";

static bool refuse(const char **why, const char *text)
{
    if (why != NULL) {
        *why = text;
    }
    return false;
}

// ---- public ----------------------------------------------------------------------------------

const char *box_mode_name(enum box_mode mode)
{
    assert((size_t)mode < ARRAY_LEN(mode_names));
    return mode_names[mode];
}

bool box_mode_parse(struct str name, enum box_mode *out)
{
    ptrdiff_t at = str_lookup(name, mode_names, ARRAY_LEN(mode_names));
    if (at >= 0) {
        *out = (enum box_mode)at;
    }
    return at >= 0;
}

enum box_mode box_choose_mode(enum box_mode wanted, const char *working_dir, const char *home,
                              const char **why)
{
    char *dir = real_path(working_dir), *own = real_path("~");
    char *hub = home != NULL ? real_path(home) : NULL;
    *why = NULL;
    if (dir == NULL || wanted == BOX_READ_ONLY) {
        wanted = BOX_READ_ONLY;
    } else if (strcmp(dir, "/") == 0) {
        *why = "the working directory is /: tools can only read; --sandbox asks for more";
    } else if (own != NULL && strcmp(dir, own) == 0) {
        *why = "the working directory is your home: tools can only read; --sandbox asks for more";
    } else if (hub != NULL && box__beneath(hub, dir)) {
        *why = "the working directory holds Afloat's own files: tools can only read; --sandbox "
               "asks for more";
    } else if (box__in_repository(dir)) {
        *why =
            "the working directory is a bare repository or holds git's own files: tools can only "
            "read; --sandbox asks for more";
    }
    free(hub);
    free(own);
    free(dir);
    return *why != NULL ? BOX_READ_ONLY : wanted;
}

int box_new(struct box **out, const struct box_policy *p, struct err *e)
{
    struct box *b = xcalloc(1, sizeof *b);
    int rc;
    *out = NULL;
    b->mode = p->mode;
    b->network = p->network || p->mode == BOX_FULL_ACCESS;
    if (p->mode == BOX_FULL_ACCESS) { // nothing depends on which directory it is
        b->dir = real_path(p->working_dir);
        rc = b->dir != NULL && path_is_dir(b->dir) ? 0 : ERR_NOT_FOUND;
        if (rc < 0) {
            err_set(e, rc, "the working directory '%s' is gone", p->working_dir);
        }
    } else {
        rc = find_granted(b, p, e);
    }
    if (rc < 0) {
        box_free(b);
        return rc;
    }
    *out = b;
    return 0;
}

void box_free(struct box *b)
{
    if (b == NULL) {
        return;
    }
    box__rules_fini(b);
    grants_unref(b->grants);
    free(b->dir);
    free(b->home);
    free(b->tmp_dir);
    free(b);
}

const char *const *box_rules(const struct box *b)
{
    return b->mode == BOX_FULL_ACCESS ? NULL : b->texts.p;
}

const char *box_dir(const struct box *b)
{
    return b->dir;
}

bool box_network(const struct box *b)
{
    return b->network;
}

bool box_may_read(const struct box *b, const char *real, const char **why)
{
    char kind = box__find(b, real)->kind;
    assert(real[0] == '/');
    if (b->mode == BOX_FULL_ACCESS) {
        return true;
    }
    if (kind == 'h' || (kind == 0 && (box__beneath(real, "/tmp") || box__beneath(real, "/dev")))) {
        return refuse(why, "it is hidden from tools");
    }
    return true;
}

bool box_may_write(const struct box *b, const char *real, const char **why)
{
    const struct box_rule *rule = box__find(b, real);
    if (b->mode == BOX_FULL_ACCESS) {
        return true;
    }
    if (rule->kind == 'h') {
        return refuse(why, "it is hidden from tools");
    }
    if (rule->kind == 't') {
        return true;
    }
    if (b->mode == BOX_READ_ONLY) {
        return refuse(why, "the sandbox is read-only");
    }
    if (rule->kind == '\0') {
        return refuse(why, "it is outside the working directory");
    }
    if (rule->guard) {
        return refuse(why, guard_reason);
    }
    // tools that run in the hub can tell a `.git` further down, too
    assert(box__beneath(real, rule->path));
    const char *rest = real + strlen(rule->path);
    bool kept = strchr("rkf", rule->kind) != NULL || path_has_part(rest, ".git") ||
                path_has_part(rest, ".afloat");
    return kept ? refuse(why, "tools may not write .git and .afloat") : true;
}

bool box_is_guarded(const struct box *b, const char *real)
{
    return box__find(b, real)->guard;
}

bool box_has_guards(const struct box *b)
{
    vec_foreach (r, &b->rules) {
        if (r->guard) {
            return true;
        }
    }
    return false;
}

char *box_map(const struct box *b, const char *path)
{
    bool up = path_has_part(path, "..");
    char *clean = up ? path_real(path) : path_clean(path);
    if (b->mode == BOX_FULL_ACCESS || !box__beneath(clean, "/tmp") ||
        box__find(b, clean)->kind != '\0') {
        char *same = xstrdup(up ? path : clean);
        free(clean);
        return same;
    }
    char *mapped =
        b->tmp_dir != NULL ? xasprintf("%s%s", b->tmp_dir, clean + strlen("/tmp")) : NULL;
    free(clean);
    return mapped;
}

int box_explain(int kind, int errnum, const char *instead, struct err *e)
{
    bool moved = errnum == ENOENT || errnum == ELOOP || errnum == ENOTDIR;
    if (kind == LAUNCH_NO_MOUNT && moved) { // the sandbox itself works
        return err_set(e, ERR_CONFLICT,
                       "a file or directory of the sandbox was moved or replaced just now; nothing "
                       "was run");
    }
    const char *what = kind == LAUNCH_NO_NAMESPACE  ? "the kernel allows no user namespace here"
                       : kind == LAUNCH_NO_MOUNT    ? "the kernel refuses a mount"
                       : kind == LAUNCH_NO_LANDLOCK ? "the kernel has no Landlock"
                                                    : "the kernel refuses a system call filter";
    return err_set(e, ERR_UNSUPPORTED,
                   "no sandbox: %s (%s); nothing was run: allow it (see 'afloat "
                   "doctor') or %s",
                   what, strerror(errnum), instead);
}
