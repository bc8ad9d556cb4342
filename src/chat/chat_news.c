// News of the hub in a chat: settings and plugins that broke, came, changed or went. Of this session, what another
// client does: the chat joins a turn that it began, and what is typed stays; a question that it answered ends.
//
//     chat begins ──> the faults that stand now ──> prompt: GET /events, after the last one seen
//                                                     ^        │ shown above what is typed
//                                                     └─ turn ─┘
//
// While a line is typed the wait for keys is a wait for the hub's events too (client_watch). During a turn
// the chat reads the session's own events instead; what the hub said meanwhile comes with the next prompt,
// because the hub keeps its events and we ask for those after the last one seen.
//
// A hub that is gone is looked for again now and then; a connection must not start one (holder_is_dormant()).

#include <errno.h>

#include "base/time.h"
#include "chat/chat_int.h"
#include "client/holder.h"
#include "client/interrupt.h"

enum { FAULTS_MAX = 3, RETRY_MS = 2000 };

static const char types[] = "generation.committed,plugin.error,config.changed,turn.started";
static const char answers[] = ",permission.decided,question.answered"; // while something is asked

// ---- what stands at the beginning ----------------------------------------------------------------

void chat__tell_faults(struct cli *c)
{
    struct arena arena = {0};
    const struct json *report = ask_quietly(c, OP_RELOAD_LAST, NULL, 0, 0, &arena);
    size_t told = 0, more = 0;
    json_foreach_item (d, json_get(report, "diagnostics")) {
        if (!str_eqz(json_get_text(d, "source"), "config")) {
            continue;
        }
        if (told++ < FAULTS_MAX) {
            out_note(&c->out, STR_FMT ":%lld: " STR_FMT, STR_ARG(json_get_text(d, "path")),
                     (long long)json_int(json_get(d, "line"), 0),
                     STR_ARG(json_get_text(d, "message")));
        } else {
            more++;
        }
    }
    if (more != 0) {
        out_note(&c->out, "%zu more faults in the settings: 'afloat status' lists them", more);
    }
    arena_fini(&arena);
}

// ---- what comes later ----------------------------------------------------------------------------

void chat__news_begin(struct chat *t)
{
    struct arena arena = {0};
    struct ask_param params[] = {{"after", ASK_EVENTS_END}, {"limit", "1"}};
    const struct json *v = ask_quietly(t->c, OP_EVENTS, params, ARRAY_LEN(params), 0, &arena);
    t->heard = (uint64_t)MAX(json_int(json_get(v, "next"), 0), 0);
    arena_fini(&arena);
}

// A turn that we have not followed began, for a message (a compaction has none). A terminal that edits its lines itself
// cannot leave a line that is being typed.
static bool is_news_turn(const struct chat *t, const struct json *ev)
{
    return str_eqz(json_get_text(ev, "type"), "turn.started") &&
           str_eqz(json_get_text(ev, "session"), t->id) && json_get_text(ev, "text").n != 0 &&
           json_int(json_get(ev, "seq"), 0) > (int64_t)t->seq && t->c->out.drawing &&
           t->input == &t->line && t->line_end == CHAT_NONE;
}

static bool is_answer(const struct chat *t, const struct json *ev)
{
    struct str type = json_get_text(ev, "type");
    const char *key = str_eqz(type, "permission.decided")  ? "request_id"
                      : str_eqz(type, "question.answered") ? "question_id"
                                                           : NULL;
    return key != NULL && t->asked != NULL && t->input == &t->reply && t->line_end == CHAT_NONE &&
           str_eqz(json_get_text(ev, "session"), t->id) &&
           str_eq(json_get_text(ev, key), json_get_text(t->asked, key));
}

// An event of a session is told in that session.
static void show(struct chat *t, const struct json *ev)
{
    if (json_get(ev, "session") == NULL) {
        view_event(&t->view, json_get_text(ev, "type"), ev, STR_NULL);
        chat__changed(t);
    } else if (is_news_turn(t, ev)) {
        snprintf(t->turn, sizeof t->turn, STR_FMT, STR_ARG(json_get_text(ev, "turn")));
        chat__print_line(t, "> ", json_get_text(ev, "text"));
        t->joins = true;
        t->line_end = CHAT_ELSEWHERE;
    } else if (is_answer(t, ev)) {
        t->line_end = CHAT_ELSEWHERE;
    }
}

static int on_news(const struct client_event *e, void *arg)
{
    struct chat *t = arg;
    struct arena arena = {0};
    struct json *ev;
    uint64_t id;
    if (str_to_u64(e->id, &id)) {
        t->heard = id;
    }
    if (json_parse(&ev, &arena, e->data, NULL, NULL) == 0) {
        show(t, ev);
    }
    arena_fini(&arena);
    return t->line_end != CHAT_NONE ? -ECANCELED : 0;
}

void chat__news_so_far(struct chat *t)
{
    struct arena arena = {0};
    char after[24];
    snprintf(after, sizeof after, "%llu", (unsigned long long)t->heard);
    struct ask_param params[] = {{"types", types}, {"after", after}};
    const struct json *v =
        t->heard != 0 ? ask_quietly(t->c, OP_EVENTS, params, ARRAY_LEN(params), 0, &arena) : NULL;
    json_foreach_item (ev, json_get(v, "events")) {
        show(t, ev);
    }
    t->heard = (uint64_t)json_int(json_get(v, "next"), (int64_t)t->heard);
    arena_fini(&arena);
}

// Until the line ends (t->line_end), a signal comes (-EINTR) or there is nothing to hear.
static int hear(struct chat *t, struct client_watch *w)
{
    struct client_peer to = {.socket = t->c->home.socket};
    struct client_answer a;
    char path[200];
    snprintf(path, sizeof path, "/events?types=%s%s&after=%llu", types,
             t->asked != NULL ? answers : "", (unsigned long long)t->heard);
    struct client_request r = {.method = "GET",
                               .path = path,
                               .accept = "text/event-stream",
                               .timeout_ms = RETRY_MS,
                               .watch = w};
    client_answer_init(&a);
    int rc = client_stream(&to, &r, &a, on_news, t, NULL);
    client_answer_fini(&a);
    return rc;
}

// Wait for keys alone, at most until the hub is to be looked for again.
static int wait_for_keys(struct client_watch *w)
{
    uint64_t until = interrupt_deadline(RETRY_MS);
    int rc = 0;
    w->fds[0].revents = w->fds[1].revents = 0;
    while (rc >= 0 && w->run(w) == 0 && time_mono_ns() < until) {
        rc = interrupt_wait(w->fds, ARRAY_LEN(w->fds),
                            w->due_ns != 0 ? MIN(w->due_ns, until) : until);
    }
    return rc;
}

int chat__wait_for_line(struct chat *t, struct client_watch *w)
{
    int rc = 0;
    while (t->line_end == CHAT_NONE && rc != -EINTR) {
        rc = t->heard == 0 || holder_is_dormant(&t->c->home) ? 0 : hear(t, w);
        if (t->line_end == CHAT_NONE && rc != -EINTR) {
            rc = wait_for_keys(w);
        }
    }
    return rc == -EINTR ? rc : 0;
}
