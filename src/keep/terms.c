// The hub's terminals, each with one connection to its keeper.
//
// A terminal is listed once its keeper has said WELCOME, and removed when the connection ends: the keeper has
// ended, or crashed. Each connection has its own object, and nothing is delivered after it is closed, so a
// terminal that is found again never gets messages of an older connection.

#include "keep/terms.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "base/sock.h"
#include "base/time.h"
#include "keep/terms_int.h"

enum { WELCOME_MS = 5000, DIE_MS = 6000 };

static void emit(struct term *t, enum terms_event what, struct str text)
{
    if (t->row != NULL && t->all->opts.event != NULL) {
        t->all->opts.event(t->all->opts.arg, what, t, text);
    }
}

static void answer_all(struct terms_wait **list, struct str text, const struct err *e)
{
    struct terms_wait *w = *list, *next;
    *list = NULL;
    for (; w != NULL; w = next) {
        next = w->next;
        w->done(w->arg, text, e);
        free(w);
    }
}

static void add_wait(struct terms_wait **list, terms_text *done, void *arg)
{
    struct terms_wait *w = xcalloc(1, sizeof *w);
    *w = (struct terms_wait){done, arg, *list};
    *list = w;
}

static void free_term(struct term *t)
{
    timer_stop(&t->late);
    chan_close(t->chan);
    arena_fini(&t->arena);
    free(t->socket);
    free(t->title);
    free(t->directory);
    free(t);
}

static bool is_settled(const struct terms *all)
{
    vec_foreach (t, &all->list) {
        if ((*t)->row == NULL && (*t)->started == NULL) {
            return false;
        }
    }
    return true;
}

static void check_settled(struct terms *all)
{
    while (all->settling.n != 0 && is_settled(all)) {
        struct terms_settling s = vec_pop(&all->settling);
        s.done(s.arg);
    }
}

void terms_settle(struct terms *all, loop_fn *done, void *arg)
{
    struct terms_settling s = {done, arg};
    vec_push(&all->settling, s);
    check_settled(all);
}

/// The keeper is gone.
static void end(struct term *t)
{
    struct terms *all = t->all;
    struct err e = {0};
    err_set(&e, ERR_NOT_FOUND, "the terminal has ended");
    vec_drop(&t->all->list, t);
    if (!t->told && t->row != NULL) {
        t->told = true;
        emit(t, TERMS_CLOSED, STR_NULL);
    }
    emit(t, TERMS_REMOVED, STR_NULL);
    if (t->started != NULL) {
        t->started(t->started_arg, NULL, &e);
    }
    answer_all(&t->kills, STR_NULL, NULL);
    answer_all(&t->screens, STR_NULL, &e);
    free_term(t);
    check_settled(all);
}

static void on_late(void *arg)
{
    end(arg);
}

// ---- what keepers say ----------------------------------------------------------------------

/// Its keeper has answered: it comes before all that are older. Keepers that a new hub finds answer in any order.
static void sort_in(struct term *t)
{
    struct term **list = t->all->list.p;
    size_t i = t->all->list.n;
    while (list[--i] != t) {
    }
    for (; i > 0 && list[i - 1]->started_ms <= t->started_ms; i--) {
        list[i] = list[i - 1];
    }
    list[i] = t;
}

static void on_welcome(struct term *t, struct str json)
{
    struct json *row;
    if (t->row != NULL || json_parse(&row, &t->arena, arena_str(&t->arena, json), NULL, NULL) < 0) {
        return;
    }
    t->row = row;
    t->title = str_dup(json_get_text(row, "title"));
    t->directory = str_dup(json_get_text(row, "directory"));
    t->rows = (int)json_int(json_get(row, "rows"), 0);
    t->cols = (int)json_int(json_get(row, "cols"), 0);
    t->started_ms = json_int(json_get(row, "started_ms"), 0);
    sort_in(t);
    timer_stop(&t->late);
    if (t->started != NULL) {
        terms_started *done = t->started;
        t->started = NULL;
        emit(t, TERMS_OPENED, STR_NULL);
        done(t->started_arg, t, NULL);
    }
    check_settled(t->all);
}

static void on_note(struct term *t, struct str p)
{
    uint64_t kind;
    if (!wire_get(&p, 1, &kind) || t->row == NULL) {
        return;
    }
    char **at = kind == WIRE_TITLE ? &t->title : kind == WIRE_DIRECTORY ? &t->directory : NULL;
    int64_t n;
    if (at != NULL && !str_eqz(p, *at)) {
        free(*at);
        *at = str_dup(p);
        emit(t, TERMS_UPDATED, STR_NULL);
    } else if (kind == WIRE_VIEWERS && str_to_i64(p, &n)) {
        t->viewers = (int)n;
    } else if (kind == WIRE_BELL) {
        emit(t, TERMS_BELL, STR_NULL);
    } else if (kind == WIRE_NOTIFY) {
        emit(t, TERMS_NOTIFIED, p);
    }
}

static void on_msg(struct chan *c, const struct wire_msg *m, void *arg)
{
    struct term *t = arg;
    struct str p = m->payload;
    uint64_t a, b;
    (void)c;
    if (m->type == WIRE_WELCOME) {
        on_welcome(t, p);
    } else if (m->type == WIRE_NOTE) {
        on_note(t, p);
    } else if (m->type == WIRE_RESIZE && wire_get(&p, 2, &a) && wire_get(&p, 2, &b)) {
        t->rows = (int)a;
        t->cols = (int)b;
    } else if (m->type == WIRE_EXIT && wire_get(&p, 4, &a)) {
        t->ended = true;
        t->status = (int)a;
        if (!t->told) {
            t->told = true;
            emit(t, TERMS_CLOSED, STR_NULL);
        }
    } else if (m->type == WIRE_SCREEN) {
        answer_all(&t->screens, p, NULL);
    } else if (m->type == WIRE_REFUSED) {
        end(t);
    }
}

static void on_end(struct chan *c, void *arg)
{
    (void)c;
    end(arg);
}

static const struct chan_cb callbacks = {.on_msg = on_msg, .on_end = on_end};

int terms__connect(struct terms *all, const char *id, terms_started *done, void *arg, struct err *e)
{
    struct term *t = xcalloc(1, sizeof *t);
    t->all = all;
    snprintf(t->id, sizeof t->id, "%s", id);
    t->socket = xasprintf("%s/%s.sock", all->dir, id);
    timer_init(&t->late, all->opts.loop, on_late, t);
    int fd = sock_connect(t->socket, e);
    if (fd >= 0 && !sock_is_ours(fd)) {
        close(fd);
        fd = err_set(e, ERR_DENIED, "'%s' is another user's", t->socket);
    }
    int rc =
        fd < 0 ? fd : chan_open(&t->chan, all->opts.loop, fd, WIRE_FROM_KEEPER, &callbacks, t, e);
    if (rc < 0) {
        free_term(t);
        return rc;
    }
    t->started = done;
    t->started_arg = arg;
    chan_hello(t->chan, WIRE_HUB);
    timer_start(&t->late, WELCOME_MS);
    vec_push(&all->list, t);
    return 0;
}

// ---- finding them again --------------------------------------------------------------------

/// Call `fn` with the id of each socket in `dir`.
static void each_socket(const char *dir, void (*fn)(void *arg, const char *dir, const char *id),
                        void *arg)
{
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        struct str name = str_of(f.name);
        if (str_ends(name, ".sock") && name.n > 5 && name.n < 60) {
            char id[64];
            snprintf(id, sizeof id, "%.*s", (int)name.n - 5, name.p);
            fn(arg, dir, id);
        }
    }
}

static void find_one(void *arg, const char *dir, const char *id)
{
    struct terms *all = arg;
    struct err e = {0};
    if (terms__connect(all, id, NULL, NULL, &e) == -ECONNREFUSED) { // its keeper is gone
        char *path = xasprintf("%s/%s.sock", dir, id);
        unlink(path);
        free(path);
    }
}

struct terms *terms_open(const struct terms_opts *o)
{
    struct terms *all = xcalloc(1, sizeof *all);
    all->opts = *o;
    all->dir = xstrdup(o->dir);
    mkdir(all->dir, 0700);
    each_socket(all->dir, find_one, all);
    return all;
}

void terms_close(struct terms *all)
{
    if (all == NULL) {
        return;
    }
    all->opts.event = NULL;
    terms__stop_starting(all);
    while (all->list.n != 0) {
        end(all->list.p[0]);
    }
    check_settled(all);
    vec_fini(&all->list);
    vec_fini(&all->settling);
    all->closed = true;
    terms__free_closed(all);
}

void terms__free_closed(struct terms *all)
{
    if (all->closed && all->starting.n == 0) {
        vec_fini(&all->starting);
        free(all->dir);
        free(all);
    }
}

// ---- asking --------------------------------------------------------------------------------

void terms_kill(struct term *t, terms_text *done, void *arg)
{
    t->dying = true;
    add_wait(&t->kills, done, arg);
    chan_send(t->chan, WIRE_KILL, STR_NULL, STR_NULL);
    if (!timer_running(&t->late)) {
        timer_start(&t->late, DIE_MS);
    }
}

void terms_screen(struct term *t, terms_text *done, void *arg)
{
    add_wait(&t->screens, done, arg);
    chan_send(t->chan, WIRE_SCREEN, STR_NULL, STR_NULL);
}

void terms_type(struct term *t, struct str bytes)
{
    while (bytes.n != 0) {
        struct str piece = {bytes.p, MIN(bytes.n, (size_t)WIRE_TO_KEEPER / 2)};
        chan_send(t->chan, WIRE_INPUT, piece, STR_NULL);
        bytes = str_from(bytes, piece.n);
    }
}

static bool is_listed(const struct term *t)
{
    return t->row != NULL && !t->dying;
}

struct term *terms_find(struct terms *all, struct str id, struct err *e)
{
    struct term *found = NULL;
    vec_foreach (at, &all->list) {
        struct term *t = *at;
        bool is_there = !t->dying && (t->row != NULL || t->started == NULL);
        if (!is_there || id.n == 0 || strncmp(t->id, id.p, id.n) != 0) {
            continue;
        }
        if (found != NULL) {
            err_set(e, ERR_CONFLICT, "'" STR_FMT "' begins the ids of several terminals",
                    STR_ARG(id));
            return NULL;
        }
        found = t;
    }
    if (found == NULL) {
        err_set(e, ERR_NOT_FOUND,
                "there is no terminal '" STR_FMT "'; 'afloat pty list' shows them",
                (int)MIN(id.n, 60), id.p);
    }
    return found;
}

size_t terms_count(const struct terms *all)
{
    size_t n = 0;
    for (size_t i = 0; i < all->list.n; i++) {
        n += is_listed(all->list.p[i]);
    }
    return n;
}

struct term *terms_at(const struct terms *all, size_t i)
{
    for (size_t k = 0; k < all->list.n; k++) {
        if (is_listed(all->list.p[k]) && i-- == 0) {
            return all->list.p[k];
        }
    }
    return NULL;
}

const char *term_id(const struct term *t)
{
    return t->id;
}

const char *term_socket(const struct term *t)
{
    return t->socket;
}

bool term_is_ended(const struct term *t)
{
    return t->ended;
}

int term_status(const struct term *t)
{
    return t->ended ? t->status : t->dying ? 128 + SIGHUP : -1;
}

struct str term_about(const struct term *t, const char *key)
{
    return json_str(json_get(json_get(t->row, "about"), key), NULL);
}

void term_write(const struct term *t, struct jw *w)
{
    static const char *const about[] = {"name",     "type",   "prompt",    "run_id",
                                        "worktree", "branch", "repository"};
    char started[TIME_TEXT];
    jw_obj(w);
    jw_kstrz(w, "id", t->id);
    for (size_t i = 0; i < ARRAY_LEN(about); i++) {
        jw_key(w, about[i]);
        jw_value(w, json_get(json_get(t->row, "about"), about[i]));
    }
    jw_kvalue(w, "pid", json_get(t->row, "pid"));
    jw_kvalue(w, "keeper_pid", json_get(t->row, "keeper_pid"));
    jw_kvalue(w, "cmd", json_get(t->row, "cmd"));
    jw_kvalue(w, "args", json_get(t->row, "args"));
    jw_kvalue(w, "cwd", json_get(t->row, "cwd"));
    jw_kint(w, "rows", t->rows);
    jw_kint(w, "cols", t->cols);
    jw_kstrz(w, "state", t->ended ? "ended" : "running");
    jw_key(w, "status");
    if (t->ended) {
        jw_int(w, t->status);
    } else {
        jw_null(w);
    }
    jw_kstrz(w, "title", t->title);
    jw_kstrz(w, "directory", t->directory);
    jw_kint(w, "viewers", t->viewers);
    jw_kstrz(w, "started_at", time_format(t->started_ms, started));
    jw_end_obj(w);
}

// ---- without a hub -------------------------------------------------------------------------

struct killing {
    unsigned n;
    uint64_t until_ns;
};

static void kill_one(void *arg, const char *dir, const char *id)
{
    struct killing *k = arg;
    char *path = xasprintf("%s/%s.sock", dir, id);
    struct buf out = {.max = 64};
    int fd = sock_connect(path, NULL);
    if (fd < 0) {
        unlink(path);
        free(path);
        return;
    }
    free(path);
    wire_add_hello(&out, WIRE_VIEWER);
    wire_add(&out, WIRE_KILL, STR_NULL, STR_NULL);
    ssize_t n = write(fd, out.p, out.n);
    k->n++;
    while (n > 0 && time_mono_ns() < k->until_ns) { // until it hangs up
        char bytes[4096];
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 100) > 0) {
            n = read(fd, bytes, sizeof bytes);
        }
    }
    buf_fini(&out);
    close(fd);
}

unsigned terms_kill_all(const char *dir, uint64_t ms)
{
    struct killing k = {.until_ns = time_mono_ns() + ms * 1000000};
    each_socket(dir, kill_one, &k);
    return k.n;
}
