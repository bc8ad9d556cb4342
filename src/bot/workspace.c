// Which directory belongs to which project.
//
//     path ──> slug, slug-<8 digits>, slug-<16>, ...     names that it may have, in order
//                │
//                ├─ one of them says "path" in workspace.json: that one, whatever else is free
//                └─ else the first that nobody claimed: workspace.json linked into place
//
// The claim is a file that is made once and only when there is none, so of two runs that want the same name
// one gets it and the other goes on to the next name. A directory without a claim, as an import or
// --project leaves it, goes to the first project of its name.
//
// Invariant: a workspace.json that cannot be read belongs to somebody else. Nothing is shared by mistake.

#include "bot/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/vec.h"

enum { NAMES = 5, CLAIM_BYTES = 64 * 1024, LOCK_MS = 5000, LOCK_STEP_MS = 2 };

static const char *name_of(const char *path, int i, char out[SLUG_TEXT])
{
    static const unsigned digits[NAMES] = {0, 8, 16, 32, SLUG_HASH_MAX};
    return i == 0 ? slug_of(path, out) : slug_taken(path, digits[i], out);
}

static void set_names(struct workspace *w, const char *home, const char *bot, const char *slug)
{
    workspace_fini(w);
    w->bot = xstrdup(bot);
    w->slug = xstrdup(slug);
    w->rel = xasprintf("bots/%s/workspaces/%s", bot, slug);
    w->dir = path_join(home, w->rel);
}

// ---- claims -------------------------------------------------------------------------------------

enum claim { CLAIM_NONE, CLAIM_OURS, CLAIM_OTHERS };

static void hash_path(const char *path, char out[SHA256_HEX])
{
    uint8_t hash[SHA256_SIZE];
    sha256_of(str_of(path), hash);
    sha256_hex(hash, out);
}

/// Fill in whose the workspace is; a path that is not UTF-8 is known by its hash alone.
static enum claim read_claim(struct workspace *w, const char *path)
{
    struct buf text;
    struct arena a;
    struct json *v;
    char hash[SHA256_HEX], *file = path_join(w->dir, "workspace.json");
    enum claim claim = CLAIM_OTHERS;
    buf_init(&text, CLAIM_BYTES);
    arena_init(&a);
    int rc = path_read(file, &text, NULL);
    if (rc == -ENOENT) {
        claim = CLAIM_NONE;
    } else if (rc == 0 && json_parse(&v, &a, buf_str(&text), NULL, NULL) == 0) {
        struct str owner = json_str(json_get(v, "path"), "");
        struct str given = json_str(json_get(v, "sha256"), "");
        free(w->path);
        w->path = owner.n != 0 ? str_dup(owner) : NULL;
        hash_path(path != NULL ? path : "", hash);
        bool same = given.n != 0 ? str_eqz(given, hash) : path != NULL && str_eqz(owner, path);
        claim = same ? CLAIM_OURS : CLAIM_OTHERS;
    }
    arena_fini(&a);
    buf_fini(&text);
    free(file);
    return claim;
}

static int write_claim(const struct workspace *w, const char *path, struct err *e)
{
    struct buf text;
    struct jw out;
    char hash[SHA256_HEX], *file = path_join(w->dir, "workspace.json");
    hash_path(path, hash);
    buf_init(&text, SIZE_MAX);
    jw_init(&out, &text);
    jw_obj(&out);
    jw_kstrz(&out, "path", path);
    jw_kstrz(&out, "sha256", hash);
    jw_end_obj(&out);
    buf_addc(&text, '\n');
    int rc = path_mkdirs(w->dir, 0700, e);
    rc = rc == 0 ? path_write_new(file, buf_str(&text), 0600, e) : rc;
    buf_fini(&text);
    free(file);
    return rc;
}

static bool is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/// Claim `w` for `path`. True when the search is over: `*rc` says how. False: it is another's.
static bool claim(struct workspace *w, const char *path, enum workspace_how how, int *rc,
                  struct err *e)
{
    if (read_claim(w, path) == CLAIM_NONE && how == WORKSPACE_MAKE) {
        *rc = write_claim(w, path, e);
        if (*rc < 0 && *rc != ERR_CONFLICT) {
            return true;
        }
    }
    *rc = 0;
    enum claim now = read_claim(w, path);
    return now == CLAIM_OURS || (now == CLAIM_NONE && how == WORKSPACE_LOOK);
}

// ---- finding ------------------------------------------------------------------------------------

int workspace_of_path(struct workspace *w, const char *home, const char *bot, const char *path,
                      enum workspace_how how, struct err *e)
{
    char slug[SLUG_TEXT];
    int rc = 0;
    bool found = false;
    *w = (struct workspace){0};
    for (int i = 0; i < NAMES && !found; i++) {
        set_names(w, home, bot, name_of(path, i, slug));
        found = read_claim(w, path) == CLAIM_OURS;
    }
    for (int i = 0; i < NAMES && !found; i++) {
        set_names(w, home, bot, name_of(path, i, slug));
        found = claim(w, path, how, &rc, e);
    }
    if (!found) {
        return err_set(e, ERR_CONFLICT, "every name for a workspace of '%s' is taken", path);
    }
    w->exists = is_dir(w->dir);
    return rc;
}

int workspace_of_slug(struct workspace *w, const char *home, const char *bot, const char *slug,
                      enum workspace_how how, struct err *e)
{
    *w = (struct workspace){0};
    int rc = slug_check(str_of(slug), e);
    if (rc < 0) {
        return rc;
    }
    set_names(w, home, bot, slug);
    if (how == WORKSPACE_MAKE) {
        rc = path_mkdirs(w->dir, 0700, e);
    }
    (void)read_claim(w, NULL);
    w->exists = is_dir(w->dir);
    return rc;
}

void workspace_fini(struct workspace *w)
{
    free(w->bot);
    free(w->slug);
    free(w->dir);
    free(w->rel);
    free(w->path);
    *w = (struct workspace){0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int workspace_each(const char *home, const char *bot,
                   void (*cb)(void *arg, const struct workspace *w), void *arg, struct err *e)
{
    vec(char *) slugs = {0};
    char *dir = xasprintf("%s/bots/%s/workspaces", home, bot);
    DIR *d = opendir(dir);
    int rc = d != NULL || errno == ENOENT ? 0 : err_sys(e, "cannot list '%s'", dir);
    for (struct dirent *it = d != NULL ? readdir(d) : NULL; it != NULL; it = readdir(d)) {
        if (slug_valid(str_of(it->d_name))) {
            vec_push(&slugs, xstrdup(it->d_name));
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    if (slugs.n != 0) {
        qsort(slugs.p, slugs.n, sizeof *slugs.p, by_name);
    }
    vec_foreach (slug, &slugs) {
        struct workspace w;
        if (workspace_of_slug(&w, home, bot, *slug, WORKSPACE_LOOK, NULL) == 0 && w.exists) {
            cb(arg, &w);
        }
        workspace_fini(&w);
        free(*slug);
    }
    vec_fini(&slugs);
    free(dir);
    return rc;
}

// ---- the lock -----------------------------------------------------------------------------------

/// flock() without end would hang a lane behind a stopped process.
static int lock_within(int fd, const char *name, struct err *e)
{
    const struct timespec step = {.tv_nsec = LOCK_STEP_MS * 1000000L};
    for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_STEP_MS) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return err_sys(e, "cannot lock '%s'", name);
        }
        if (waited >= LOCK_MS) {
            return err_set(e, ERR_TIMEOUT, "another program holds '%s'", name);
        }
        nanosleep(&step, NULL);
    }
    return 0;
}

int workspace_lock(const char *dir, struct err *e)
{
    char *name = path_join(dir, "lock");
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = fd >= 0 ? lock_within(fd, name, e) : err_sys(e, "cannot open '%s'", name);
    if (rc < 0 && fd >= 0) {
        close(fd);
    }
    free(name);
    return rc < 0 ? rc : fd;
}

void workspace_unlock(int fd)
{
    close(fd);
}
