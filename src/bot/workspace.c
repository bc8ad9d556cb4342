// Which directory belongs to which project.
//
//     path ──> slug, slug-<8 digits>, slug-<16>, ...     names that it may have, in order
//                │
//                ├─ one of them says "path" in workspace.json: that one, whatever else is free
//                └─ else the first without a claim: workspace.json linked into place
//
// The claim is a file that is made once and only when there is none, so of two runs that want the same name
// one gets it and the other tries the next name. A directory without a claim, as an import or
// --project leaves it, goes to the first project of its name.
//
// Hubs that share a store share all files of a slug, so a slug is claimed there as well, first: the text
// workspace.json in the shelf. Machines have their checkouts at different paths, so there a repository is known
// by the address of its remote, and by its path where one of the two has no remote.
//
// Invariant: an invalid workspace.json belongs to another project, and one that cannot be read is an error: nothing is
// shared by mistake, and no path gets a second workspace.

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

enum { CLAIM_BYTES = 64 * 1024, CONFIG_BYTES = 1 << 20, LOCK_MS = 5000, LOCK_STEP_MS = 2 };

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

/// Whose `text` says it is; fills in `w->path`. A path that is not UTF-8 is known by its hash alone. With `remote`
/// a claim of the same one is ours, and one of another is not, wherever they are.
static enum claim parse_claim(struct workspace *w, struct str text, const char *path,
                              const char *remote)
{
    struct arena a = {0};
    struct json *v;
    char hash[SHA256_HEX];
    bool same = false;
    if (json_parse(&v, &a, text, NULL, NULL) == 0) {
        struct str owner = json_str(json_get(v, "path"), "");
        struct str given = json_str(json_get(v, "sha256"), "");
        struct str far = json_str(json_get(v, "remote"), "");
        free(w->path);
        w->path = owner.n != 0 ? str_dup(owner) : NULL;
        hash_path(path != NULL ? path : "", hash);
        same = far.n != 0 && remote != NULL ? str_eqz(far, remote)
               : given.n != 0               ? str_eqz(given, hash)
                                            : path != NULL && str_eqz(owner, path);
    }
    arena_fini(&a);
    return same ? CLAIM_OURS : CLAIM_OTHERS;
}

/// Returns an enum claim, or a negative code when it cannot be read. `sh` is where it is looked for.
static int read_claim(struct workspace *w, struct shelf *sh, const char *path, const char *remote,
                      struct err *e)
{
    struct buf text = {.max = CLAIM_BYTES};
    int64_t rev;
    char *file = path_join(w->dir, "workspace.json");
    int rc = shelf_read(sh, file, &text, &rev, e);
    if (rc == 0 || rc == ERR_TOO_LARGE) {
        rc = (int)parse_claim(w, buf_str(&text), path, remote);
    } else if (rc == -ENOENT) {
        rc = CLAIM_NONE;
    }
    buf_fini(&text);
    free(file);
    return rc;
}

static int write_claim(const struct workspace *w, struct shelf *sh, const char *path,
                       const char *remote, struct err *e)
{
    struct buf text = {.max = SIZE_MAX};
    char hash[SHA256_HEX], *file = path_join(w->dir, "workspace.json");
    hash_path(path, hash);
    struct jw out = {.out = &text};
    jw_obj(&out);
    jw_kstrz(&out, "path", path);
    jw_kstrz(&out, "sha256", hash);
    if (remote != NULL) {
        jw_kstrz(&out, "remote", remote);
    }
    jw_end_obj(&out);
    buf_addc(&text, '\n');
    int rc =
        sh != NULL ? shelf_write(sh, file, buf_str(&text), 0, e) : path_mkdirs(w->dir, 0700, e);
    rc = rc == 0 && sh == NULL ? path_write_new(file, buf_str(&text), 0600, e) : rc;
    buf_fini(&text);
    free(file);
    return rc;
}

/// Claim `w` in one place where that is asked for. Returns whose it is then, or a negative code.
static int claim(struct workspace *w, struct shelf *sh, const char *path, const char *remote,
                 enum workspace_how how, struct err *e)
{
    int whose = read_claim(w, sh, path, remote, e);
    if (whose != CLAIM_NONE || how == WORKSPACE_LOOK) {
        return whose;
    }
    int rc = write_claim(w, sh, path, remote, e);
    return rc == 0 || rc == ERR_CONFLICT ? read_claim(w, sh, path, remote, e) : rc;
}

/// Claim it in the shelf, if there is one, and in the files, which say so far that it is `whose`.
static int claim_all(struct workspace *w, const struct workspace_project *p, const char *remote,
                     int whose, enum workspace_how how, struct err *e)
{
    int shared = p->sh != NULL ? claim(w, p->sh, p->path, remote, how, e) : CLAIM_NONE;
    if (shared == CLAIM_OTHERS && whose == CLAIM_OURS) { // our remote may be another one now
        shared = read_claim(w, p->sh, p->path, NULL, e);
    }
    if (shared < 0 || shared == CLAIM_OTHERS) {
        return shared;
    }
    return whose == CLAIM_OURS ? whose : claim(w, NULL, p->path, NULL, how, e);
}

// ---- remotes ------------------------------------------------------------------------------------

/// Host and path, without scheme, user, `.git` and the `/` at the end.
char *workspace_address(struct str url)
{
    if (url.p == NULL || url.n == 0 || str_starts(url, ".")) {
        return NULL;
    }
    const char *scheme = memmem(url.p, url.n, "://", 3);
    struct str rest = scheme != NULL ? str_from(url, (size_t)(scheme + 3 - url.p)) : url;
    const char *slash = memchr(rest.p, '/', rest.n);
    size_t host = slash != NULL ? (size_t)(slash - rest.p) : rest.n;
    const char *at = memrchr(rest.p, '@', host);
    rest = at != NULL ? str_from(rest, (size_t)(at + 1 - rest.p)) : rest;
    while (str_ends(rest, "/")) {
        rest.n--;
    }
    rest.n -= str_ends(rest, ".git") ? 4 : 0;
    char *plain = rest.n != 0 ? str_dup(rest) : NULL;
    bool in_host = true;
    for (size_t i = 0; i < rest.n; i++) {
        char c = rest.p[i];
        bool colon = scheme == NULL && in_host && c == ':'; // user@host:path
        in_host = in_host && c != '/' && !colon;
        plain[i] = colon ? '/' : in_host && c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return plain;
}

char *workspace_remote(const char *common)
{
    struct buf text = {.max = CONFIG_BYTES};
    char *file = path_join(common, "config"), *found = NULL;
    bool remote = false, origin = false, done = false;
    struct str rest = path_read(file, &text, NULL) == 0 ? buf_str(&text) : STR_NULL;
    while (rest.n != 0 && !done) {
        struct str line = str_trim(str_cut(&rest, '\n')), value = line;
        struct str key = str_trim(str_cut(&value, '='));
        if (str_starts(line, "[")) {
            remote = str_starts(line, "[remote \"");
            origin = str_eqz(line, "[remote \"origin\"]");
        } else if (remote && str_eqz(key, "url") && (found == NULL || origin)) {
            free(found);
            found = workspace_address(str_trim(value));
            done = origin;
        }
    }
    buf_fini(&text);
    free(file);
    return found;
}

// ---- finding ------------------------------------------------------------------------------------

/// Go through the names until one is the project's, or with `take` free. Negative: it went wrong, or none is.
static int search(struct workspace *w, const char *home, const char *bot,
                  const struct workspace_project *p, const char *remote, bool take,
                  enum workspace_how how, struct err *e)
{
    static const unsigned digits[] = {0, 8, 16, 32, SLUG_HASH_MAX}; // of each name, in order
    for (size_t i = 0; i < ARRAY_LEN(digits); i++) {
        char slug[SLUG_TEXT];
        set_names(w, home, bot,
                  i == 0 ? slug_of(p->path, slug) : slug_taken(p->path, digits[i], slug));
        int whose = read_claim(w, NULL, p->path, NULL, e);
        if (whose == CLAIM_OURS || (take && whose == CLAIM_NONE)) {
            whose = claim_all(w, p, remote, whose, how, e);
        }
        if (whose < 0 || whose == CLAIM_OURS || (take && whose == CLAIM_NONE)) {
            return MIN(whose, 0);
        }
    }
    return err_set(e, ERR_CONFLICT, "every name for a workspace of '%s' is taken", p->path);
}

int workspace_of_path(struct workspace *w, const char *home, const char *bot,
                      const struct workspace_project *p, enum workspace_how how, struct err *e)
{
    *w = (struct workspace){0};
    assert(home[0] == '/' && p->path[0] == '/');
    int rc = bot_name_check(str_of(bot), e);
    if (rc < 0) {
        return rc;
    }
    char *remote = p->sh != NULL && p->common != NULL ? workspace_remote(p->common) : NULL;
    rc = search(w, home, bot, p, remote, false, how, e);
    if (rc == ERR_CONFLICT) {
        rc = search(w, home, bot, p, remote, true, how, e);
    }
    w->exists = path_is_dir(w->dir);
    free(remote);
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
    int whose = rc == 0 ? read_claim(w, NULL, NULL, NULL, e) : rc;
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

/// flock() would block the lane for as long as a stopped process has the lock.
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
    assert(fd >= 0);
    close(fd);
}
