// Directories for the page: what is in one, and that it changed.
//
//     GET /files?dir=D           ──> (thread) read it ──> its entries
//     POST /files/watch {dirs}   ──> (thread) look at each ──> a watch on each, leased for LEASE_MS
//     something happens in one   ──> collected for TELL_MS ──> event files.changed {dir, names, listing}
//
// A page names the directories it shows, and names them again while it is open. A directory that no page
// names any more is let go with its lease, so a closed page or a sleeping laptop leaves no watch. Only
// the kernel's events are used: no file is read and nothing is swept, so a busy directory costs one event each TELL_MS.
//
// Invariants:
//   - at most WATCHES_MAX directories are watched, whatever pages ask for.
//   - `flush` runs exactly while there is something to tell.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uv.h>

#include "api/api_int.h"
#include "api/handlers.h"
#include "base/folder.h"
#include "loop/timer.h"
#include "loop/work.h"

enum {
    ENTRIES_MAX = 5000, // of one answer
    WATCHES_MAX = 256,
    NAMES_MAX = 64, // of one event; more are "anything"
    LEASE_MS = 60000,
    TELL_MS = 150,
};

struct seen {
    uv_fs_event_t handle;
    struct api *api;
    char *dir;
    dev_t dev; // a directory that was made anew is watched anew
    ino_t ino;
    struct timer lease, flush;
    vec(char *) names;
    bool listing; // entries came or went
    bool many;    // more names than we tell
};

struct api_files {
    struct lane *lane; // a dead mount must not hold up others
    vec(struct seen *) seen;
};

static struct api_files *files_of(struct api *api)
{
    if (api->dirs == NULL) {
        api->dirs = xcalloc(1, sizeof *api->dirs);
        api->dirs->lane = lane_open(api->o.hub->loop, "page-files", 2);
    }
    return api->dirs;
}

struct lane *api__page_lane(struct api *api)
{
    return files_of(api)->lane;
}

bool api__require_path(struct api *api, struct op_call *c, struct str dir)
{
    if (api->files == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (dir.n == 0 || dir.p[0] != '/') {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'" STR_FMT "' is not an absolute path",
                STR_ARG(dir));
    } else {
        return true;
    }
    return false;
}

// ---- what is in a directory -----------------------------------------------------------------------

struct listing {
    struct op_call *call;
    char *dir;
    struct buf answer;
    int error; // errno
};

static void list(void *arg)
{
    struct listing *l = arg;
    struct folder f = folder_open(l->dir);
    size_t n = 0;
    if (f.stream == NULL) {
        l->error = errno;
        return;
    }
    struct jw w = {.out = &l->answer};
    jw_obj(&w);
    jw_kstrz(&w, "dir", l->dir);
    jw_karr(&w, "entries");
    while (n <= ENTRIES_MAX && folder_next(&f)) {
        struct stat st; // a link to a directory is one to the reader
        bool unsure = f.type == DT_UNKNOWN || f.type == DT_LNK, dir = f.type == DT_DIR;
        if (n++ == ENTRIES_MAX) {
            continue;
        }
        if (unsure && fstatat(dirfd(f.stream), f.name, &st, 0) == 0) {
            dir = S_ISDIR(st.st_mode);
        }
        jw_obj(&w);
        jw_kstrz(&w, "name", f.name);
        jw_kstrz(&w, "kind", dir ? "dir" : "file");
        if (f.type == DT_LNK) {
            jw_kbool(&w, "link", true);
        }
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_kbool(&w, "more", n > ENTRIES_MAX);
    jw_end_obj(&w);
    folder_close(&f);
}

void api__answer_list(struct op_call *c, char *dir, int error, struct buf *answer)
{
    if (error == 0) {
        op_answer(c, 200, buf_str(answer));
    } else {
        enum problem p = error == ENOENT   ? PROBLEM_NOT_FOUND
                         : error == EACCES ? PROBLEM_FORBIDDEN
                                           : PROBLEM_INVALID_BODY;
        op_fail(c, p, NULL, "cannot list '%s': %s", dir, strerror(error));
    }
    buf_fini(answer);
    free(dir);
}

static void on_listed(void *arg)
{
    struct listing *l = arg;
    api__answer_list(l->call, l->dir, l->error, &l->answer);
    free(l);
}

void op_FILES_LIST(struct api *api, struct op_call *c)
{
    struct str dir = json_get_text(c->params, "dir");
    if (api__require_path(api, c, dir)) {
        struct listing *l = xcalloc(1, sizeof *l);
        *l = (struct listing){.call = c, .dir = str_dup(dir), .answer = {.max = SIZE_MAX}};
        work_submit(files_of(api)->lane, work_mount_key(l->dir), list, on_listed, l);
    }
}

// ---- that it changed --------------------------------------------------------------------------------

static void forget_names(struct seen *s)
{
    vec_fini_each(&s->names, free);
    s->listing = s->many = false;
}

static void on_closed(uv_handle_t *h)
{
    struct seen *s = container_of(h, struct seen, handle);
    forget_names(s);
    free(s->dir);
    free(s);
}

static void release(struct seen *s)
{
    timer_stop(&s->lease);
    timer_stop(&s->flush);
    uv_close((uv_handle_t *)&s->handle, on_closed);
}

static void on_lease_over(void *arg)
{
    struct seen *s = arg;
    struct api_files *f = s->api->dirs;
    vec_drop(&f->seen, s);
    release(s);
}

static void on_flush(void *arg)
{
    struct seen *s = arg;
    struct buf fields = {.max = SIZE_MAX};
    struct jw w = {.out = &fields};
    jw_obj(&w);
    jw_kstrz(&w, "dir", s->dir);
    jw_key(&w, "names");
    if (s->many) {
        jw_null(&w);
    } else {
        jw_arr(&w);
        vec_foreach (name, &s->names) {
            jw_strz(&w, *name);
        }
        jw_end_arr(&w);
    }
    jw_kbool(&w, "listing", s->listing);
    jw_end_obj(&w);
    forget_names(s);
    event_emit_object(s->api->o.hub->events, EVENT_FILES_CHANGED, &fields);
}

static void on_change(uv_fs_event_t *h, const char *name, int events, int status)
{
    struct seen *s = container_of(h, struct seen, handle);
    s->listing |= status < 0 || (events & UV_RENAME) != 0;
    s->many |= status < 0 || name == NULL;
    bool known = s->many;
    for (size_t i = 0; i < s->names.n && !known; i++) {
        known = strcmp(s->names.p[i], name) == 0;
    }
    if (!known && s->names.n < NAMES_MAX) {
        vec_push(&s->names, xstrdup(name));
    } else if (!known) {
        s->many = true;
    }
    if (!timer_running(&s->flush)) { // from the first one on: a busy directory is told of too
        timer_start(&s->flush, TELL_MS);
    }
}

/// Watch `dir`, or keep watching it. False: the kernel does not let us, or there are enough.
static bool watch_dir(struct api *api, const char *dir, const struct stat *st)
{
    struct api_files *f = files_of(api);
    for (size_t i = 0; i < f->seen.n; i++) {
        struct seen *s = f->seen.p[i];
        if (strcmp(s->dir, dir) == 0 && s->dev == st->st_dev && s->ino == st->st_ino) {
            timer_start(&s->lease, LEASE_MS);
            return true;
        }
        if (strcmp(s->dir, dir) == 0) {
            vec_remove(&f->seen, i);
            release(s);
            break;
        }
    }
    if (f->seen.n >= WATCHES_MAX) {
        return false;
    }
    struct seen *s = xcalloc(1, sizeof *s);
    *s = (struct seen){.api = api, .dir = xstrdup(dir), .dev = st->st_dev, .ino = st->st_ino};
    timer_init(&s->lease, api->o.hub->loop, on_lease_over, s);
    timer_init(&s->flush, api->o.hub->loop, on_flush, s);
    uv_fs_event_init(&api->o.hub->loop->uv, &s->handle);
    if (uv_fs_event_start(&s->handle, on_change, dir, 0) < 0) {
        release(s);
        return false;
    }
    uv_unref((uv_handle_t *)&s->handle);
    timer_start(&s->lease, LEASE_MS);
    vec_push(&f->seen, s);
    return true;
}

struct wish {
    struct api *api;
    struct op_call *call;
    size_t n;
    struct {
        char *dir;
        struct stat st;
        bool there;
    } dirs[WATCHES_MAX];
};

/// Also brings the path into the kernel's cache, so that the loop does not wait for the disk when it adds the watch.
static void look(void *arg)
{
    struct wish *wish = arg;
    for (size_t i = 0; i < wish->n; i++) {
        wish->dirs[i].there =
            stat(wish->dirs[i].dir, &wish->dirs[i].st) == 0 && S_ISDIR(wish->dirs[i].st.st_mode);
    }
}

static void on_looked(void *arg)
{
    struct wish *wish = arg;
    struct jw *w = op_begin_obj(wish->call);
    jw_karr(w, "watching");
    for (size_t i = 0; i < wish->n; i++) {
        if (wish->dirs[i].there && wish->api->files != NULL &&
            watch_dir(wish->api, wish->dirs[i].dir, &wish->dirs[i].st)) {
            jw_strz(w, wish->dirs[i].dir);
        }
        free(wish->dirs[i].dir);
    }
    jw_end_arr(w);
    jw_kint(w, "lease_s", LEASE_MS / 1000);
    op_end_obj(wish->call, 200);
    free(wish);
}

void op_FILES_WATCH(struct api *api, struct op_call *c)
{
    const struct json *dirs = json_get(c->params, "dirs");
    json_foreach_item (d, dirs) {
        if (!api__require_path(api, c, json_str(d, ""))) {
            return;
        }
    }
    if (dirs->n > WATCHES_MAX) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "at most %d directories can be watched",
                WATCHES_MAX);
        return;
    }
    if (api->files == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return;
    }
    struct wish *wish = xcalloc(1, sizeof *wish);
    wish->api = api;
    wish->call = c;
    json_foreach_item (d, dirs) {
        wish->dirs[wish->n++].dir = str_dup(json_str(d, ""));
    }
    uint64_t key = wish->n != 0 ? work_mount_key(wish->dirs[0].dir) : 0;
    work_submit(files_of(api)->lane, key, look, on_looked, wish);
}

void api__files_stop(struct api *api)
{
    assert(api->files == NULL); // nothing is begun any more
    if (api->dirs != NULL) {
        lane_close(api->dirs->lane);
        while (api->dirs->seen.n != 0) {
            release(vec_pop(&api->dirs->seen));
        }
    }
}

void api__files_free(struct api *api)
{
    if (api->dirs != NULL) {
        assert(api->dirs->seen.n == 0);
        vec_fini(&api->dirs->seen);
        free(api->dirs);
    }
}
