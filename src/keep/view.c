// The viewers of a terminal.
//
// Each viewer has a place in the stream (`at`). It gets a message from the tail when the one before has left,
// so that what waits for it is bounded; one whose place has left the tail gets a snapshot and continues
// from there. What it is told is always in the stream's order: the exit status comes after the last byte.
//
// The terminal is as large as the smallest viewer that told its size: what fits there fits everywhere.

#include <sys/socket.h>
#include <unistd.h>

#include "base/sock.h"
#include "keep/keeper_int.h"

enum { MISSED = 8, PIECE = 32 * 1024, VIEWS_MAX = 256 };

struct view {
    struct keeper *keeper;
    struct chan *chan;
    struct view *next;
    uint64_t at;    // offset of the next byte
    int history;    // rows of it in a snapshot
    int rows, cols; // 0: it did not say
    bool welcome, hub, attached, told_exit, slow;
};

static void drop(struct view *v)
{
    struct view **at = &v->keeper->views;
    while (*at != v) {
        at = &(*at)->next;
    }
    *at = v->next;
    chan_close(v->chan);
    free(v);
}

static void refuse(struct view *v, const char *why)
{
    chan_send(v->chan, WIRE_REFUSED, str_of(why), STR_NULL);
}

// ---- sizes ---------------------------------------------------------------------------------

static void fit_size(struct keeper *k)
{
    int rows = 0, cols = 0;
    char text[32];
    unsigned n = 0;
    for (struct view *v = k->views; v != NULL; v = v->next) {
        n += v->attached;
        if (v->attached && v->rows != 0) {
            rows = rows == 0 ? v->rows : MIN(rows, v->rows);
            cols = cols == 0 ? v->cols : MIN(cols, v->cols);
        }
    }
    snprintf(text, sizeof text, "%u", n);
    view__note(k, WIRE_VIEWERS, str_of(text));
    if (rows == 0 || (rows == vt_rows(k->vt) && cols == vt_cols(k->vt))) {
        return;
    }
    keeper__resize(k, rows, cols);
    for (struct view *v = k->views; v != NULL; v = v->next) {
        if (v->welcome) {
            chan_resize(v->chan, (uint16_t)vt_rows(k->vt), (uint16_t)vt_cols(k->vt));
        }
    }
}

static bool read_size(struct view *v, struct str from)
{
    uint64_t rows, cols;
    if (!wire_get(&from, 2, &rows) || !wire_get(&from, 2, &cols)) {
        return false;
    }
    v->rows = rows == 0 || cols == 0 ? 0 : (int)MAX(2u, MIN(rows, (uint64_t)VT_ROWS_MAX));
    v->cols = v->rows == 0 ? 0 : (int)MAX(3u, MIN(cols, (uint64_t)VT_COLS_MAX));
    return true;
}

// ---- output --------------------------------------------------------------------------------

static void send_snapshot(struct view *v)
{
    struct keeper *k = v->keeper;
    struct buf head = {.max = 16}, bytes = {.max = SIZE_MAX};
    v->at = k->tail.end;
    v->slow = false;
    wire_put(&head, v->at, 8);
    wire_put(&head, (uint64_t)vt_rows(k->vt), 2);
    wire_put(&head, (uint64_t)vt_cols(k->vt), 2);
    vt_snapshot(k->vt, v->history, &bytes);
    chan_send(v->chan, WIRE_SNAPSHOT, buf_str(&head), buf_str(&bytes));
    buf_fini(&head);
    buf_fini(&bytes);
}

static void send_piece(struct view *v)
{
    struct buf head = {.max = 16};
    struct str bytes = tail_from(&v->keeper->tail, v->at, PIECE);
    wire_put(&head, v->at, 8);
    chan_send(v->chan, WIRE_OUTPUT, buf_str(&head), bytes);
    v->at += bytes.n;
    buf_fini(&head);
}

static void tell_exit(struct view *v)
{
    struct buf status = {.max = 16};
    v->told_exit = true;
    wire_put(&status, (uint64_t)v->keeper->status, 4);
    chan_send(v->chan, WIRE_EXIT, buf_str(&status), STR_NULL);
    buf_fini(&status);
}

static void pump(struct view *v)
{
    struct keeper *k = v->keeper;
    while (v->attached && v->at < k->tail.end && chan_unsent(v->chan) < PIECE) {
        if (v->at < tail_start(&k->tail)) {
            send_snapshot(v);
        } else {
            send_piece(v);
        }
    }
    bool knows_all = v->attached ? v->at == k->tail.end : v->hub;
    if (v->welcome && k->drained && !v->told_exit && knows_all) {
        tell_exit(v);
    }
}

void view__pump(struct keeper *k)
{
    for (struct view *v = k->views; v != NULL; v = v->next) {
        pump(v);
    }
}

bool view__is_behind(const struct keeper *k)
{
    for (const struct view *v = k->views; v != NULL; v = v->next) {
        if (v->attached && !v->slow && k->tail.end - v->at > k->tail.size / 2) {
            return true;
        }
    }
    return false;
}

void view__give_up_slow(struct keeper *k)
{
    for (struct view *v = k->views; v != NULL; v = v->next) {
        v->slow |= v->attached && k->tail.end - v->at > k->tail.size / 2;
    }
}

bool view__has_hub(const struct keeper *k)
{
    for (const struct view *v = k->views; v != NULL; v = v->next) {
        if (v->hub) {
            return true;
        }
    }
    return false;
}

/// A bell or a notification is for the user: without a hub they are kept for the next one.
static void keep_missed(struct keeper *k, enum wire_note kind, struct str text)
{
    if ((kind == WIRE_BELL || kind == WIRE_NOTIFY) && k->missed.n < MISSED && !view__has_hub(k)) {
        char *note = xasprintf("%c" STR_FMT, (char)kind, STR_ARG(text));
        vec_push(&k->missed, note);
    }
}

static void tell_missed(struct view *v)
{
    struct keeper *k = v->keeper;
    vec_foreach (note, &k->missed) {
        chan_send(v->chan, WIRE_NOTE, str_of(*note), STR_NULL);
        free(*note);
    }
    k->missed.n = 0;
}

void view__note(struct keeper *k, enum wire_note kind, struct str text)
{
    char byte = (char)kind;
    keep_missed(k, kind, text);
    for (struct view *v = k->views; v != NULL; v = v->next) {
        if (v->welcome && chan_unsent(v->chan) < 4 * PIECE) { // else it hears of the next one
            chan_send(v->chan, WIRE_NOTE, (struct str){&byte, 1}, text);
        }
    }
}

static void send_screen(struct view *v)
{
    struct vt *vt = v->keeper->vt;
    struct buf text = {.max = SIZE_MAX};
    for (int row = 0; row < vt_rows(vt); row++) {
        const struct vt_cell *cells = vt_row(vt, row);
        size_t begin = text.n, end = text.n;
        for (int col = 0; col < vt_cols(vt); col++) {
            char utf8[VT_TEXT_MAX];
            size_t n = vt_cell_text(vt, &cells[col], utf8);
            buf_adds(&text, n != 0 ? (struct str){utf8, n} : STR(" "));
            if (cells[col].width == 0) {
                buf_cut(&text, text.n - 1);
            }
            end = n != 0 ? text.n : end;
        }
        buf_cut(&text, MAX(begin, end));
        buf_addc(&text, '\n');
    }
    chan_send(v->chan, WIRE_SCREEN, buf_str(&text), STR_NULL);
    buf_fini(&text);
}

// ---- messages ------------------------------------------------------------------------------

static bool on_hello(struct view *v, struct str p)
{
    uint64_t version, role;
    struct buf row = {.max = SIZE_MAX};
    if (!wire_get(&p, 2, &version) || !wire_get(&p, 1, &role)) {
        return false;
    }
    if (version != WIRE_VERSION) {
        refuse(v, "this terminal was started by another version of afloat");
        return true;
    }
    v->welcome = true;
    v->hub = role == WIRE_HUB;
    keeper__row(v->keeper, &row);
    chan_send(v->chan, WIRE_WELCOME, buf_str(&row), STR_NULL);
    buf_fini(&row);
    if (v->hub) {
        tell_missed(v);
    }
    keeper__check_abandoned(v->keeper);
    pump(v);
    return true;
}

static bool on_attach(struct view *v, struct str p)
{
    struct keeper *k = v->keeper;
    uint64_t has_offset, offset, history;
    if (!wire_get(&p, 1, &has_offset) || !wire_get(&p, 8, &offset) || !wire_get(&p, 4, &history) ||
        !read_size(v, p)) {
        return false;
    }
    v->attached = true;
    v->told_exit = false;
    v->history = (int)MIN(history, 1000000u);
    fit_size(k);
    if (has_offset && offset >= tail_start(&k->tail) && offset <= k->tail.end) {
        v->at = offset;
    } else {
        send_snapshot(v);
    }
    pump(v);
    return true;
}

static bool on_resize(struct view *v, struct str p)
{
    if (!read_size(v, p)) {
        return false;
    }
    fit_size(v->keeper);
    return true;
}

static void on_msg(struct chan *c, const struct wire_msg *m, void *arg)
{
    struct view *v = arg;
    bool good = v->welcome || m->type == WIRE_HELLO;
    (void)c;
    switch (m->type) {
    case WIRE_HELLO: good = on_hello(v, m->payload); break;
    case WIRE_ATTACH: good = good && on_attach(v, m->payload); break;
    case WIRE_RESIZE: good = good && on_resize(v, m->payload); break;
    case WIRE_INPUT:
        if (good) {
            keeper__type(v->keeper, m->payload);
        }
        break;
    case WIRE_SCREEN:
        if (good) {
            send_screen(v);
        }
        break;
    case WIRE_KILL:
        if (good) {
            keeper__kill(v->keeper);
        }
        break;
    default: good = false; break;
    }
    if (!good) {
        refuse(v, "this message is not understood");
        struct keeper *k = v->keeper;
        drop(v);
        fit_size(k);
    }
}

static void on_drain(struct chan *c, void *arg)
{
    struct view *v = arg;
    (void)c;
    pump(v);
    keeper__viewers_moved(v->keeper);
}

static void on_end(struct chan *c, void *arg)
{
    struct view *v = arg;
    struct keeper *k = v->keeper;
    (void)c;
    drop(v);
    fit_size(k);
    keeper__check_abandoned(k);
    keeper__viewers_moved(k);
}

static const struct chan_cb callbacks = {.on_msg = on_msg, .on_drain = on_drain, .on_end = on_end};

// ---- the socket ----------------------------------------------------------------------------

static void on_connection(uv_poll_t *p, int status, int events)
{
    struct keeper *k = p->data;
    size_t n = 0;
    for (const struct view *v = k->views; v != NULL; v = v->next) {
        n++;
    }
    int fd = accept4(k->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)status;
    (void)events;
    if (fd < 0 || n >= VIEWS_MAX || !sock_is_ours(fd)) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    struct view *v = xcalloc(1, sizeof *v);
    v->keeper = k;
    if (chan_open(&v->chan, &k->loop, fd, WIRE_TO_KEEPER, &callbacks, v, NULL) < 0) {
        free(v);
        return;
    }
    v->next = k->views;
    k->views = v;
}

int view__listen(struct keeper *k, struct err *e)
{
    k->listen_fd = sock_listen(k->spec.socket, e);
    if (k->listen_fd < 0) {
        return k->listen_fd;
    }
    int rc = uv_poll_init(&k->loop.uv, &k->listener, k->listen_fd);
    k->listener.data = k;
    return rc < 0 ? err_set(e, rc, "cannot listen: %s", uv_strerror(rc))
                  : uv_poll_start(&k->listener, UV_READABLE, on_connection);
}
