// The session that is open, as the chat shows it.
//
//     /session/ID/events ──> kept as they came ──> view ──> rows that are final ──┐
//                                            └──> view_tail(): what still changes ┴──> the widget
//
// The view is the chat's (view/view.h), printing into memory. Rows belong to a width: at another one all events are
// shown again. Pieces of a message are forgotten when the whole message has come.
//
// `_tui_state.scroll[id]` is how many rows are below the last one shown; 0 follows what comes.

#include <assert.h>

#include "base/visible.h"
#include "term/text.h"
#include "tui/widgets_int.h"

enum {
    EVENTS_BYTES = 16 << 20,
    MESSAGES = 200,
    MESSAGES_BYTES = 4 << 20, // the interface's Lua has 32 MiB
    RETRY_MS = 1000,
    TICK_MS = 100,
    TAIL_ROWS = 200,
};

// ---- rows ----------------------------------------------------------------------------------

// The last colour sequence in `s`, so that the row that continues it has it too.
static struct str last_color(struct str s)
{
    const char *esc = s.n != 0 ? memrchr(s.p, '\033', s.n) : NULL;
    const char *end = esc != NULL ? memchr(esc, 'm', s.n - (size_t)(esc - s.p)) : NULL;
    return end != NULL ? (struct str){esc, (size_t)(end - esc) + 1} : STR_NULL;
}

// Append `lines` as rows of at most `cols` columns.
static void add_rows(struct buf *out, struct str lines, size_t cols)
{
    while (lines.n != 0) {
        struct str line = str_cut(&lines, '\n'), color = STR_NULL;
        for (;;) {
            size_t n = text_fit(line, cols, NULL);
            buf_adds(out, color);
            buf_add(out, line.p, n != 0 ? n : line.n);
            buf_addc(out, '\n');
            if (n == 0 || n == line.n) {
                break;
            }
            color = last_color((struct str){line.p, n});
            line = str_from(line, n);
        }
    }
}

static void take_rows(struct talk *k)
{
    size_t from = k->lines.n;
    add_rows(&k->lines, buf_str(&k->out.data), k->cols);
    buf_clear(&k->out.data);
    k->out.safe = 0;
    while (from < k->lines.n) {
        vec_push(&k->rows, from);
        const char *feed = memchr(k->lines.p + from, '\n', k->lines.n - from);
        from = (size_t)(feed - k->lines.p) + 1;
    }
}

static void begin_view(struct talk *k)
{
    out_init_rows(&k->out, COLOR_TRUE); // the grid knows what the terminal can show
    view_init(&k->view, VIEW_LIVE, &k->out);
    k->view.echo = true;
    k->view.open = k->details;
    k->view.cols = k->cols;
}

static void end_view(struct talk *k)
{
    view_fini(&k->view);
    out_fini(&k->out);
    buf_clear(&k->lines);
    k->rows.n = 0;
    k->done = 0;
}

// Show the events that are not in the rows yet.
static void catch_up(struct talk *k)
{
    for (; k->done < k->events.n; k->done++) {
        struct str data = str_of(k->events.p[k->done].data);
        struct arena a = {0};
        struct json *ev;
        if (json_parse(&ev, &a, data, NULL, NULL) == 0) {
            view_event(&k->view, json_get_text(ev, "type"), ev, data);
        }
        arena_fini(&a);
    }
    take_rows(k);
}

static void show_again(struct talk *k, size_t cols)
{
    end_view(k);
    k->cols = cols;
    begin_view(k);
    catch_up(k);
}

// ---- events --------------------------------------------------------------------------------

static void forget(struct talk *k, size_t i)
{
    k->bytes -= strlen(k->events.p[i].data);
    free(k->events.p[i].data);
    vec_remove(&k->events, i);
    k->done -= k->done > i;
}

static void keep(struct talk *k, struct str type, struct str data)
{
    bool piece = str_eqz(type, "message.delta") || str_eqz(type, "tool.progress");
    if (str_eqz(type, "message.completed") || str_eqz(type, "tool.completed")) {
        catch_up(k);
        while (k->events.n != 0 && vec_last(&k->events)->piece) {
            forget(k, k->events.n - 1);
        }
    }
    vec_push(&k->events, ((struct talk_event){str_dup(data), piece}));
    k->bytes += data.n;
    while (k->bytes > EVENTS_BYTES && k->events.n > 1) {
        catch_up(k);
        forget(k, 0);
    }
}

static void forget_message(struct talk *k)
{
    assert(k->messages.n != 0);
    struct talk_message m = k->messages.p[0];
    k->said_bytes -= m.text.n;
    free((char *)(uintptr_t)m.role.p);
    free((char *)(uintptr_t)m.text.p);
    vec_remove(&k->messages, 0);
}

static void take_message(struct talk *k, const struct json *ev)
{
    struct str role = json_get_text(ev, "role"), text = json_get_text(ev, "text");
    if (text.n == 0) {
        return;
    }
    struct talk_message m = {{str_dup(role), role.n}, {str_dup(text), text.n}};
    vec_push(&k->messages, m);
    k->said_bytes += text.n;
    k->said = true;
    while (k->messages.n > MESSAGES || (k->said_bytes > MESSAGES_BYTES && k->messages.n > 1)) {
        forget_message(k);
    }
}

void talk__update(struct tui *t)
{
    struct talk *k = &t->talk;
    struct arena a = {0};
    if (!k->said) {
        return;
    }
    struct json list = {.type = JSON_ARR, .n = (uint32_t)k->messages.n};
    list.items = arena_calloc(&a, k->messages.n, sizeof *list.items);
    for (size_t i = 0; i < k->messages.n; i++) {
        struct json_member *two = arena_calloc(&a, 2, sizeof *two);
        two[0] = (struct json_member){STR("role"), {.type = JSON_STR, .s = k->messages.p[i].role}};
        two[1] = (struct json_member){STR("text"), {.type = JSON_STR, .s = k->messages.p[i].text}};
        list.items[i] = (struct json){.type = JSON_OBJ, .n = 2, .members = two};
    }
    model__set(t, DOC_MESSAGES, &list);
    arena_fini(&a);
    k->said = false;
}

static void on_tick(void *arg)
{
    struct tui *t = arg;
    if (t->talk.gauge.work != GAUGE_IDLE) {
        app__changed(t, false);
        timer_start(&t->talk.tick, TICK_MS);
    }
}

static void on_event(const struct client_event *ev, void *arg)
{
    struct tui *t = arg;
    struct talk *k = &t->talk;
    struct arena a = {0};
    struct json *v;
    uint64_t seq;
    if (json_parse(&v, &a, ev->data, NULL, NULL) == 0) {
        bool message = str_eqz(ev->type, "message.completed");
        k->seq = str_to_u64(ev->id, &seq) ? seq : k->seq;
        gauge_event(&k->gauge, ev->type, v);
        keep(k, ev->type, ev->data);
        if (message) {
            take_message(k, v);
        }
        if (k->gauge.work != GAUGE_IDLE && !timer_running(&k->tick)) {
            timer_start(&k->tick, TICK_MS);
        }
        app__changed(t, message);
    }
    arena_fini(&a);
}

static void on_end(int rc, const struct client_answer *a, const struct err *e, void *arg)
{
    struct tui *t = arg;
    struct str state = json_get_text(t->model.docs[DOC_SESSION].v, "state");
    bool whole = rc == 0 && a->status / 100 == 2 && str_eqz(state, "ended");
    bool gone = rc == 0 && a->status == 404;
    (void)e;
    t->talk.stream = NULL;
    if (!whole && !gone) { // also when a hub that starts or stops answers that it has no sessions
        timer_start(&t->talk.retry, RETRY_MS);
    }
}

static void follow(void *arg)
{
    struct tui *t = arg;
    char path[TUI_ID + 64];
    struct err e;
    snprintf(path, sizeof path, "/session/%s/events?after=%llu", t->talk.id,
             (unsigned long long)t->talk.seq);
    struct client_request r = {.method = "GET", .path = path, .accept = "text/event-stream"};
    if (async_open(&t->talk.stream, &t->loop, &t->hub, &r, on_event, on_end, t, &e) < 0) {
        t->talk.stream = NULL;
        timer_start(&t->talk.retry, RETRY_MS);
    }
}

// ---- which session -------------------------------------------------------------------------

static void clear(struct tui *t)
{
    struct talk *k = &t->talk;
    async_close(k->stream); // nothing of the old session comes any more
    k->stream = NULL;
    timer_stop(&k->retry);
    timer_stop(&k->tick);
    vec_foreach (ev, &k->events) {
        free(ev->data);
    }
    k->events.n = 0;
    k->bytes = 0;
    k->seq = 0;
    while (k->messages.n != 0) {
        forget_message(k);
    }
    gauge_init(&k->gauge);
    end_view(k);
    begin_view(k);
}

void talk__open(struct tui *t, struct str id)
{
    struct talk *k = &t->talk;
    if (str_eqz(id, k->id) || id.n >= sizeof k->id) {
        return;
    }
    clear(t);
    snprintf(k->id, sizeof k->id, STR_FMT, STR_ARG(id));
    k->said = true;
    async_close(t->model.docs[DOC_SESSION].call);
    t->model.docs[DOC_SESSION].call = NULL;
    const struct json *row = NULL;
    json_foreach_item (it, t->model.docs[DOC_SESSIONS].v) {
        row = str_eq(json_get_text(it, "id"), id) ? it : row;
    }
    model__set(t, DOC_SESSION, row);
    if (id.n != 0) {
        model__refresh(t, DOC_SESSION);
        follow(t);
    }
    app__changed(t, true);
}

void talk__set_details(struct tui *t, bool all)
{
    t->talk.details = all;
    show_again(&t->talk, t->talk.cols);
    app__changed(t, false);
}

void talk__init(struct tui *t)
{
    struct talk *k = &t->talk;
    k->cols = 80;
    buf_init(&k->lines, SIZE_MAX);
    gauge_init(&k->gauge);
    timer_init(&k->retry, &t->loop, follow, t);
    timer_init(&k->tick, &t->loop, on_tick, t);
    begin_view(k);
}

void talk__fini(struct tui *t)
{
    struct talk *k = &t->talk;
    clear(t);
    end_view(k);
    buf_fini(&k->lines);
    vec_fini(&k->rows);
    vec_fini(&k->events);
    vec_fini(&k->messages);
}

// ---- the widget ----------------------------------------------------------------------------

static void add_tail(struct talk *k, struct buf *tail)
{
    struct buf lines = {.max = SIZE_MAX};
    view_tail(&k->view, &lines, TAIL_ROWS);
    take_rows(k); // what became final
    add_rows(tail, buf_str(&lines), k->cols);
    buf_clear(&lines);
    gauge_work_line(&k->gauge, &lines, k->cols, COLOR_TRUE);
    if (lines.n != 0 && k->rows.n != 0) {
        buf_addz(tail, "\n");
    }
    buf_adds(tail, buf_str(&lines));
    buf_fini(&lines);
}

void talk__draw(struct tui *t, struct node *n)
{
    struct talk *k = &t->talk;
    struct buf tail = {.max = SIZE_MAX};
    if (n->inner.cols < 1 || n->inner.rows < 1) {
        return;
    }
    if (k->cols != (size_t)n->inner.cols) {
        show_again(k, (size_t)n->inner.cols);
    }
    catch_up(k);
    add_tail(k, &tail);
    int final = (int)k->rows.n, total = final + (int)str_lines(buf_str(&tail));
    int below = scroll__of(t, n, total), top = MAX(total - n->inner.rows - below, 0);
    int shown = MIN(MAX(final - top, 0), n->inner.rows);
    struct rect r = n->inner, upper = {r.row, r.col, shown, r.cols};
    if (shown > 0) {
        draw__lines(t, upper, str_from(buf_str(&k->lines), k->rows.p[top]), 0, n->style);
    }
    struct rect rest = {r.row + shown, r.col, r.rows - shown, r.cols};
    draw__lines(t, rest, buf_str(&tail), MAX(top - final, 0), n->style);
    draw__more(t, r, top, total);
    buf_fini(&tail);
}
