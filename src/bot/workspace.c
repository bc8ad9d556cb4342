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
// Invariant: a workspace.json that nobody understands belongs to somebody else, and one that cannot be read
// is an error: nothing is shared by mistake, and no path gets a second workspace.

#include "bot/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/vec.h"
#include "bot/config.h"

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

/// What `text` says: fills in whose the workspace is. A path that is not UTF-8 is known by its hash alone.
static enum claim parse_claim(struct workspace *w, struct str text, const char *path)
{
    struct arena a;
    struct json *v;
    char hash[SHA256_HEX];
    bool same = false;
    arena_init(&a);
    if (json_parse(&v, &a, text, NULL, NULL) == 0) {
        struct str owner = json_str(json_get(v, "path"), "");
        struct str given = json_str(json_get(v, "sha256"), "");
        free(w->path);
        w->path = owner.n != 0 ? str_dup(owner) : NULL;
        hash_path(path != NULL ? path : "", hash);
        same = given.n != 0 ? str_eqz(given, hash) : path != NULL && str_eqz(owner, path);
    }
    arena_fini(&a);
    return same ? CLAIM_OURS : CLAIM_OTHERS;
}

/// Returns an enum claim, or a negative code when it cannot be read.
static int read_claim(struct workspace *w, const char *path, struct err *e)
{
    struct buf text;
    char *file = path_join(w->dir, "workspace.json");
    buf_init(&text, CLAIM_BYTES);
    int rc = path_read(file, &text, e);
    if (rc == 0 || rc == ERR_TOO_LARGE) {
        rc = (int)parse_claim(w, buf_str(&text), path);
    } else if (rc == -ENOENT) {
        rc = CLAIM_NONE;
    }
    buf_fini(&text);
    free(file);
    return rc;
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

/// Claim `w` for `path` where that is asked for. Returns whose it is then, or a negative code.
static int claim(struct workspace *w, const char *path, enum workspace_how how, struct err *e)
{
    int whose = read_claim(w, path, e);
    if (whose != CLAIM_NONE || how == WORKSPACE_LOOK) {
        return whose;
    }
    int rc = write_claim(w, path, e);
    return rc == 0 || rc == ERR_CONFLICT ? read_claim(w, path, e) : rc;
}

// ---- finding ------------------------------------------------------------------------------------

/// Go through the names until one is `path`'s, or with `take` free. Negative: it went wrong, or none is.
static int search(struct workspace *w, const char *home, const char *bot, const char *path,
                  bool take, enum workspace_how how, struct err *e)
{
    for (int i = 0; i < NAMES; i++) {
        char slug[SLUG_TEXT];
        set_names(w, home, bot, name_of(path, i, slug));
        int whose = take ? claim(w, path, how, e) : read_claim(w, path, e);
        if (whose < 0 || whose == CLAIM_OURS || (take && whose == CLAIM_NONE)) {
            return MIN(whose, 0);
        }
    }
    return err_set(e, ERR_CONFLICT, "every name for a workspace of '%s' is taken", path);
}

int workspace_of_path(struct workspace *w, const char *home, const char *bot, const char *path,
                      enum workspace_how how, struct err *e)
{
    *w = (struct workspace){0};
    int rc = bot_name_check(str_of(bot), e);
    if (rc < 0) {
        return rc;
    }
    rc = search(w, home, bot, path, false, how, e);
    if (rc == ERR_CONFLICT) {
        rc = search(w, home, bot, path, true, how, e);
    }
    w->exists = path_is_dir(w->dir);
    return rc;
}

int workspace_of_slug(struct workspace *w, const char *home, const char *bot, const char *slug,
                      enum workspace_how how, struct err *e)
{
    *w = (struct workspace){0};
    int rc = bot_name_check(str_of(bot), e);
    rc = rc == 0 ? slug_check(str_of(slug), e) : rc;
    if (rc < 0) {
        return rc;
    }
    set_names(w, home, bot, slug);
    rc = how == WORKSPACE_MAKE ? path_mkdirs(w->dir, 0700, e) : 0;
    int whose = rc == 0 ? read_claim(w, NULL, e) : rc;
    w->exists = path_is_dir(w->dir);
    return MIN(whose, 0);
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
