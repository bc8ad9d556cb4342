// Text files for the editor of the page: read whole, written in one step, never over what another wrote.
//
//     GET /files/text?path=F        ──> (thread) resolve, may it be seen?, read ──> {path, text, stamp}
//     PUT /files/text {path, text}  ──> (thread) the same, is `stamp` still its? ──> written beside it, renamed
//
// A person edits here, not an agent: no tool is called, and files of the hub's home that a person writes (plugins, Lua,
// skills, bots) can be opened, which tools may not touch. What would let a page become the user is out of reach: keys,
// tokens, trust, the hub's state, and what the settings hide from commands. Links are resolved before that is judged.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api_int.h"
#include "api/handlers.h"
#include "base/path.h"
#include "base/utf8.h"
#include "loop/work.h"

enum { TEXT_MAX = 8 << 20, STAMP = 48 };

struct edit {
    struct api *api;
    struct op_call *call;
    char *path;
    char *home;         // of the hub, resolved
    vec(char *) hidden; // absolute
    struct str text;    // to write; p NULL: read
    char *expected;     // the stamp that it must have; NULL: any
    struct buf content; // what was read
    char stamp[STAMP];
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

static void refuse_errno(struct edit *x, const char *verb, int error)
{
    enum problem p = error == ENOENT   ? PROBLEM_NOT_FOUND
                     : error == EACCES ? PROBLEM_FORBIDDEN
                                       : PROBLEM_INVALID_BODY;
    refuse(x, p, "cannot %s '%s': %s", verb, x->path, strerror(error));
}

// ---- what may be seen ---------------------------------------------------------------------------

static bool is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/// Of the hub's home only what a person writes; settings can be read.
static bool is_open_in_home(const char *rest, bool writes)
{
    static const char *const open_to_all[] = {"plugins", "shared", "profiles",
                                              "lua",     "skills", "bots"};
    for (size_t i = 0; i < ARRAY_LEN(open_to_all); i++) {
        if (is_below(rest, open_to_all[i]) && strstr(rest, "/workspaces/") == NULL) {
            return true;
        }
    }
    return !writes && strcmp(rest, "config.toml") == 0;
}

static bool may_touch(struct edit *x, const char *real)
{
    if (is_below(real, x->home) &&
        !is_open_in_home(real + strlen(x->home) + (real[strlen(x->home)] == '/'),
                         x->text.p != NULL)) {
        refuse(x, PROBLEM_FORBIDDEN, "'%s' is the hub's own", x->path);
        return false;
    }
    vec_foreach (h, &x->hidden) {
        if (is_below(real, *h)) {
            refuse(x, PROBLEM_FORBIDDEN, "'%s' is hidden by [sandbox] hide", x->path);
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
        size_t n = strlen(above) + base.n + 2;
        real = xmalloc(n);
        snprintf(real, n, "%s/" STR_FMT, strcmp(above, "/") == 0 ? "" : above, STR_ARG(base));
    }
    free(above);
    return real;
}

static char *resolve(struct edit *x)
{
    char *real = real_path(x->path, x->text.p != NULL);
    if (real == NULL) {
        refuse_errno(x, x->text.p != NULL ? "write" : "read", errno);
    } else if (!may_touch(x, real)) {
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
        refuse_errno(x, "read", errno);
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

static void work(void *arg)
{
    struct edit *x = arg;
    char *real = resolve(x);
    if (real != NULL && x->text.p != NULL) {
        write_text(x, real);
    } else if (real != NULL) {
        read_text(x, real);
    }
    free(real);
}

// ---- on the loop --------------------------------------------------------------------------------

static void done(void *arg)
{
    struct edit *x = arg;
    if (x->why[0] != '\0') {
        op_fail(x->call, x->problem, NULL, "%s", x->why);
    } else {
        struct jw *w = op_begin(x->call);
        jw_obj(w);
        jw_kstrz(w, "path", x->path);
        if (x->text.p == NULL) {
            jw_kstr(w, "text", buf_str(&x->content));
        }
        jw_kstrz(w, "stamp", x->stamp);
        jw_end_obj(w);
        op_end(x->call, 200);
    }
    edit_free(x);
}

static void begin(struct api *api, struct op_call *c, struct str text, const struct json *stamp)
{
    struct str path = json_str(json_get(c->params, "path"), "");
    if (!api__may_look(api, c, path)) {
        return;
    }
    struct edit *x = xcalloc(1, sizeof *x);
    *x = (struct edit){.api = api, .call = c, .path = str_dup(path), .text = text};
    buf_init(&x->content, TEXT_MAX);
    x->home = realpath(api->home->dir, NULL);
    x->home = x->home != NULL ? x->home : xstrdup(api->home->dir);
    x->expected = stamp != NULL ? str_dup(json_str(stamp, "")) : NULL;
    size_t n;
    const char *const *hide = config_strings(api->config->now, "sandbox.hide", &n);
    for (size_t i = 0; i < n; i++) {
        vec_push(&x->hidden, path_expand_home(hide[i]));
    }
    work_submit(api__page_lane(api), work_mount_key(x->path), work, done, x);
}

void op_FILES_READ(struct api *api, struct op_call *c)
{
    begin(api, c, STR_NULL, NULL);
}

void op_FILES_WRITE(struct api *api, struct op_call *c)
{
    struct str text = json_str(json_get(c->params, "text"), "");
    assert(text.p != NULL);
    begin(api, c, arena_str(c->arena, text), json_get(c->params, "stamp"));
}
