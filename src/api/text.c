// Files for the editor and the tree of the page: read whole, written in one step, never over what another wrote; made,
// moved and deleted by name.
//
//     GET /files/text?path=F        ──> (thread) resolve, may it be seen?, read ──> {path, text, stamp}
//     PUT /files/text {path, text}  ──> (thread) the same, is `stamp` still its? ──> written beside it, renamed
//     POST /files/dir {path}        ──> (thread) resolve, may it be touched?, make it
//     POST /files/move {path, to}   ──> (thread) the same for both names; never over an existing one
//     DELETE /files?path=F          ──> (thread) the same, count what is in it; to the trash, or deleted
//
// A text is that of the file a link leads to. The other three act on the entry itself, so a link is moved or deleted and
// never followed, and a directory that holds something out of reach cannot be moved or deleted either.
//
// A person edits here, not an agent: no tool is called, and files of the hub's home that a user writes (plugins, Lua,
// skills, bots) can be opened, which tools may not touch. What would let a page become the user is out of reach: keys,
// tokens, trust, the hub's state, and what the settings hide from commands. Links are resolved before that is judged.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api_int.h"
#include "api/handlers.h"
#include "base/path.h"
#include "base/utf8.h"
#include "bot/trash.h"
#include "loop/work.h"

enum { TEXT_MAX = 8 << 20, STAMP = 48, COUNT_MAX = 100000 };

struct edit;

/// One of the operations.
struct verb {
    const char *word; // for "cannot WORD 'path'"
    bool writes;
    bool of_entry;                                      // not of what a link leads to
    bool makes;                                         // the entry may be new, with its directory
    void (*act)(struct edit *x, const char *real);      // on a thread
    void (*answer)(const struct edit *x, struct jw *w); // members after `path`
};

struct edit {
    const struct verb *verb;
    struct api *api;
    struct op_call *call;
    char *path;
    char *to;           // files.move: the new name; else NULL
    char *home;         // of the hub, resolved
    vec(char *) hidden; // absolute
    struct str text;    // to write
    char *expected;     // the stamp that it must have; NULL: any
    struct buf content; // what was read
    char stamp[STAMP];
    bool dry_run;        // files.remove: only count
    int64_t files, dirs; // files.remove: what goes
    bool trashed;        // to the trash, not for good
    enum problem problem;
    char why[400]; // "": it went well
};

static void edit_free(struct edit *x)
{
    vec_foreach (h, &x->hidden) {
        free(*h);
    }
    vec_fini(&x->hidden);
    buf_fini(&x->content);
    free(x->path);
    free(x->to);
    free(x->home);
    free(x->expected);
    free(x);
}

static void refuse(struct edit *x, enum problem p, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void refuse(struct edit *x, enum problem p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(x->why, sizeof x->why, fmt, ap);
    va_end(ap);
    x->problem = p;
}

static void refuse_errno(struct edit *x, int error)
{
    enum problem p = error == ENOENT   ? PROBLEM_NOT_FOUND
                     : error == EACCES ? PROBLEM_FORBIDDEN
                     : error == EEXIST ? PROBLEM_CONFLICT
                                       : PROBLEM_INVALID_BODY;
    refuse(x, p, "cannot %s '%s': %s", x->verb->word, x->path, strerror(error));
}

// ---- what may be seen ---------------------------------------------------------------------------

static bool is_below(const char *path, const char *dir)
{
    return path_below(dir, path) != NULL;
}

/// Of the hub's home only what a user writes; settings can be read. The directories of that, and whole bots (which
/// hold their workspaces), have operations of their own and cannot be moved or deleted as files.
static bool is_open_in_home(const char *rest, const struct verb *verb)
{
    static const struct {
        const char *name;
        int depth; // of entries that can be moved or deleted
    } open_to_all[] = {{"plugins", 1}, {"shared", 1}, {"profiles", 1},
                       {"lua", 1},     {"skills", 1}, {"bots", 2}};
    int depth = 0;
    for (const char *c = rest; *c != '\0'; c++) {
        depth += *c == '/';
    }
    for (size_t i = 0; i < ARRAY_LEN(open_to_all); i++) {
        if (is_below(rest, open_to_all[i].name) && strstr(rest, "/workspaces/") == NULL) {
            return !verb->of_entry || (depth >= open_to_all[i].depth &&
                                       !str_eqz(path_base(str_of(rest)), "workspaces"));
        }
    }
    return !verb->writes && strcmp(rest, "config.toml") == 0;
}

/// False, refused: the operation cannot touch `real`, or, where it takes an entry with all that is in it, everything below.
static bool check_touch(struct edit *x, const char *real)
{
    bool whole = x->verb->of_entry;
    if ((is_below(real, x->home) &&
         !is_open_in_home(real + strlen(x->home) + (real[strlen(x->home)] == '/'), x->verb)) ||
        (whole && is_below(x->home, real))) {
        refuse(x, PROBLEM_FORBIDDEN, "'%s' is the hub's own", real);
        return false;
    }
    vec_foreach (h, &x->hidden) {
        if (is_below(real, *h) || (whole && is_below(*h, real))) {
            refuse(x, PROBLEM_FORBIDDEN, "'%s' is hidden by [sandbox] hide", real);
            return false;
        }
    }
    return true;
}

/// The path without links, also of a file that is not there yet. NULL: there is none, with errno.
static char *real_path(const char *path, bool may_be_new)
{
    struct stat st;
    char *real = realpath(path, NULL);
    struct str base = path_base(str_of(path));
    if (real == NULL && lstat(path, &st) == 0) {
        return NULL; // a link that leads nowhere, or somewhere that cannot be seen
    }
    if (real != NULL || errno != ENOENT || !may_be_new || str_eqz(base, "..") ||
        str_eqz(base, ".") || base.n == 0) {
        return real;
    }
    char *dir = str_dup(path_dir(str_of(path)));
    char *above = real_path(dir, true);
    free(dir);
    if (above != NULL) {
        real = xasprintf("%s/" STR_FMT, strcmp(above, "/") == 0 ? "" : above, STR_ARG(base));
    }
    free(above);
    return real;
}

/// The path of the entry itself: links in its directory are resolved, it is not. NULL with errno.
static char *real_entry(const char *path, bool may_be_new)
{
    struct str base = path_base(str_of(path));
    if (base.n == 0 || str_eqz(base, ".") || str_eqz(base, "..")) {
        errno = EINVAL;
        return NULL;
    }
    char *dir = str_dup(path_dir(str_of(path)));
    char *above = real_path(dir, may_be_new);
    char *real = above == NULL ? NULL
                               : xasprintf("%s/" STR_FMT, strcmp(above, "/") == 0 ? "" : above,
                                           STR_ARG(base));
    free(dir);
    free(above);
    return real;
}

/// `path` without links; NULL, refused, when there is no such path or the operation must not touch it.
static char *resolve(struct edit *x, const char *path)
{
    char *real = x->verb->of_entry ? real_entry(path, path == x->to || x->verb->makes)
                                   : real_path(path, x->verb->makes);
    if (real == NULL) {
        refuse_errno(x, errno);
    } else if (!check_touch(x, real)) {
        free(real);
        real = NULL;
    }
    return real;
}

// ---- on a thread --------------------------------------------------------------------------------

static void stamp_of(const struct stat *st, char out[STAMP])
{
    snprintf(out, STAMP, "%lld.%09ld-%lld", (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
             (long long)st->st_size);
}

static void read_text(struct edit *x, const char *real)
{
    struct stat st;
    int fd = open(real, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        refuse_errno(x, errno);
        return;
    }
    int rc = path_read_fd(fd, &x->content, &st);
    if (rc == ERR_TOO_LARGE) {
        refuse(x, PROBLEM_TOO_LARGE, "'%s' is larger than 8 MiB", x->path);
    } else if (rc < 0) {
        refuse(x, PROBLEM_INVALID_BODY, "'%s' is not a file that can be read", x->path);
    } else if (!utf8_valid(buf_str(&x->content)) ||
               memchr(x->content.p, '\0', x->content.n) != NULL) {
        refuse(x, PROBLEM_UNSUPPORTED_MEDIA_TYPE, "'%s' is not text", x->path);
    } else {
        stamp_of(&st, x->stamp);
    }
    close(fd);
}

static int make_place(const char *real, struct err *e)
{
    char *dir = str_dup(path_dir(str_of(real)));
    int rc = path_mkdirs(dir, 0755, e);
    free(dir);
    return rc;
}

static void write_text(struct edit *x, const char *real)
{
    struct stat st;
    bool there = stat(real, &st) == 0;
    struct err e = {0};
    if (there) {
        stamp_of(&st, x->stamp);
    }
    if (there && !S_ISREG(st.st_mode)) {
        refuse(x, PROBLEM_INVALID_BODY, "'%s' is not a file", x->path);
    } else if (x->expected != NULL && strcmp(x->expected, there ? x->stamp : "") != 0) {
        refuse(x, PROBLEM_CONFLICT, "'%s' was changed by another since it was read", x->path);
    } else if (make_place(real, &e) < 0 ||
               path_write_atomic(real, x->text, there ? st.st_mode & 07777 : 0644, &e) < 0) {
        refuse(x, PROBLEM_FORBIDDEN, "cannot write '%s': %s", x->path, e.msg);
    } else if (stat(real, &st) == 0) {
        stamp_of(&st, x->stamp);
    }
}

static void make_dir(struct edit *x, const char *real)
{
    struct err e = {0};
    if (make_place(real, &e) < 0) {
        refuse(x, PROBLEM_FORBIDDEN, "cannot make '%s': %s", x->path, e.msg);
    } else if (mkdir(real, 0755) < 0) {
        refuse_errno(x, errno);
    }
}

static void move_entry(struct edit *x, const char *real)
{
    struct err e = {0};
    struct stat st;
    char *to = resolve(x, x->to);
    if (to == NULL) {
        return;
    }
    if (lstat(real, &st) < 0) {
        refuse_errno(x, errno);
    } else if (is_below(to, real)) {
        refuse(x, PROBLEM_INVALID_BODY, "cannot move '%s' into itself", x->path);
    } else if (make_place(to, &e) < 0) {
        refuse(x, PROBLEM_FORBIDDEN, "cannot move '%s': %s", x->path, e.msg);
    } else if (renameat2(AT_FDCWD, real, AT_FDCWD, to, RENAME_NOREPLACE) < 0) {
        if (errno == EEXIST) {
            refuse(x, PROBLEM_CONFLICT, "'%s' already exists", x->to);
        } else {
            refuse_errno(x, errno);
        }
    }
    free(to);
}

/// Count the entries of what is deleted; links are not followed.
static void count_entries(struct edit *x, const char *real)
{
    char *root = xstrdup(real);
    char *const roots[] = {root, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    const FTSENT *entry;
    while (walk != NULL && x->files + x->dirs < COUNT_MAX && (entry = fts_read(walk)) != NULL) {
        x->dirs += entry->fts_info == FTS_D;
        x->files += entry->fts_info != FTS_D && entry->fts_info != FTS_DP;
    }
    if (walk != NULL) {
        fts_close(walk);
    }
    free(root);
}

static void remove_entry(struct edit *x, const char *real)
{
    struct stat st, home;
    struct err e = {0};
    char *where = NULL;
    if (lstat(real, &st) < 0) {
        refuse_errno(x, errno);
        return;
    }
    count_entries(x, real);
    x->trashed = stat(x->home, &home) == 0 && home.st_dev == st.st_dev;
    if (x->dry_run) {
        return;
    }
    int rc =
        x->trashed ? trash_move(x->home, "page", real, &where, &e) : path_remove_tree(real, &e);
    if (rc < 0) {
        refuse(x, rc == ERR_NOT_FOUND ? PROBLEM_NOT_FOUND : PROBLEM_FORBIDDEN,
               "cannot delete '%s': %s", x->path, e.msg);
    }
    free(where);
}

static void work(void *arg)
{
    struct edit *x = arg;
    char *real = resolve(x, x->path);
    if (real != NULL) {
        x->verb->act(x, real);
    }
    free(real);
}

// ---- on the loop --------------------------------------------------------------------------------

static void answer_text(const struct edit *x, struct jw *w)
{
    jw_kstr(w, "text", buf_str(&x->content));
    jw_kstrz(w, "stamp", x->stamp);
}

static void answer_stamp(const struct edit *x, struct jw *w)
{
    jw_kstrz(w, "stamp", x->stamp);
}

static void answer_to(const struct edit *x, struct jw *w)
{
    jw_kstrz(w, "to", x->to);
}

static void answer_count(const struct edit *x, struct jw *w)
{
    jw_kint(w, "files", x->files);
    jw_kint(w, "dirs", x->dirs);
    jw_kbool(w, "more", x->files + x->dirs >= COUNT_MAX);
    jw_kbool(w, "trashed", x->trashed);
}

static void done(void *arg)
{
    struct edit *x = arg;
    if (x->why[0] != '\0') {
        op_fail(x->call, x->problem, NULL, "%s", x->why);
    } else {
        struct jw *w = op_begin_obj(x->call);
        jw_kstrz(w, "path", x->path);
        if (x->verb->answer != NULL) {
            x->verb->answer(x, w);
        }
        op_end_obj(x->call, 200);
    }
    edit_free(x);
}

/// Begin an operation on the parameter `path`. NULL, answered, when it cannot begin; else submit() it.
static struct edit *begin(struct api *api, struct op_call *c, const struct verb *verb)
{
    struct str path = json_get_text(c->params, "path");
    if (!api__require_path(api, c, path)) {
        return NULL;
    }
    struct edit *x = xcalloc(1, sizeof *x);
    *x = (struct edit){.verb = verb, .api = api, .call = c, .path = str_dup(path)};
    buf_init(&x->content, TEXT_MAX);
    x->home = realpath(api->o.hub->home->dir, NULL);
    x->home = x->home != NULL ? x->home : xstrdup(api->o.hub->home->dir);
    const char *const *hide = config_strings(api->o.hub->config->now, "sandbox.hide");
    for (; *hide != NULL; hide++) {
        vec_push(&x->hidden, path_expand_home(*hide));
    }
    return x;
}

/// NULL: it was refused.
static void submit(struct edit *x)
{
    if (x != NULL) {
        assert(x->verb->writes || !x->verb->of_entry);
        work_submit(api__page_lane(x->api), work_mount_key(x->path), work, done, x);
    }
}

void op_FILES_READ(struct api *api, struct op_call *c)
{
    static const struct verb verb = {.word = "read", .act = read_text, .answer = answer_text};
    submit(begin(api, c, &verb));
}

void op_FILES_WRITE(struct api *api, struct op_call *c)
{
    static const struct verb verb = {
        .word = "write", .writes = true, .makes = true, .act = write_text, .answer = answer_stamp};
    const struct json *stamp = json_get(c->params, "stamp");
    struct edit *x = begin(api, c, &verb);
    if (x != NULL) {
        x->text = arena_str(c->arena, json_get_text(c->params, "text"));
        x->expected = stamp != NULL ? str_dup(json_str(stamp, "")) : NULL;
    }
    submit(x);
}

void op_FILES_MKDIR(struct api *api, struct op_call *c)
{
    static const struct verb verb = {
        .word = "make", .writes = true, .makes = true, .of_entry = true, .act = make_dir};
    submit(begin(api, c, &verb));
}

void op_FILES_MOVE(struct api *api, struct op_call *c)
{
    static const struct verb verb = {
        .word = "move", .writes = true, .of_entry = true, .act = move_entry, .answer = answer_to};
    struct str to = json_get_text(c->params, "to");
    struct edit *x = api__require_path(api, c, to) ? begin(api, c, &verb) : NULL;
    if (x != NULL) {
        x->to = str_dup(to);
    }
    submit(x);
}

void op_FILES_REMOVE(struct api *api, struct op_call *c)
{
    static const struct verb verb = {.word = "delete",
                                     .writes = true,
                                     .of_entry = true,
                                     .act = remove_entry,
                                     .answer = answer_count};
    struct edit *x = begin(api, c, &verb);
    if (x != NULL) {
        x->dry_run = json_bool(json_get(c->params, "dry_run"), false);
    }
    submit(x);
}
