// `reload`, and the progress of a roll-out to all hubs while we wait for the answer.
//
//     POST /reload {all_hubs} ──────────────────────────────> the report, with a row for each hub
//       every POLL_MS: GET /events?types=rollout.changed ──> one line on stderr for each new event
//
// The roll-out is the hub's: Ctrl-C ends the command, and neither stops nor harms it.

#include <errno.h>

#include "cli/call.h"
#include "cli/report.h"
#include "client/interrupt.h"

enum { POLL_MS = 500, ROLLOUT_MS = 60 * 60 * 1000 };

static const struct form form = {.words = "names", .print = report_show, .judge = report_judge};

struct progress {
    struct client_watch watch;
    struct cli *c;
    int64_t seen; // the last event that was shown or passed over
    bool shows;
};

/// Show what is new, or only note where it ends.
static void read_events(struct progress *p)
{
    struct arena arena = {0};
    char after[24];
    snprintf(after, sizeof after, "%lld", (long long)p->seen);
    const struct ask_param params[] = {
        {"types", "rollout.changed"}, {"limit", "1000"}, {"after", after}};
    const struct json *v = ask_quietly(p->c, OP_EVENTS, params, ARRAY_LEN(params), POLL_MS, &arena);
    p->seen = json_int(json_get(v, "next"), p->seen);
    json_foreach_item (ev, p->shows ? json_get(v, "events") : NULL) {
        show_note(p->c, "{hub}: {state}", ev);
    }
    arena_fini(&arena);
}

static int on_due(struct client_watch *w)
{
    struct progress *p = container_of(w, struct progress, watch);
    read_events(p);
    w->due_ns = interrupt_deadline(POLL_MS);
    return 0;
}

int cmd_reload(struct cli *c)
{
    struct progress p = {.watch = {.fds = {{.fd = -1}, {.fd = -1}}, .run = on_due}, .c = c};
    if (!args_has(&c->args, FLAG_ALL_HUBS)) {
        return call_with(c, OP_RELOAD, &form);
    }
    int code = ask_ensure_hub(c);
    if (code != EXIT_OK) {
        return code;
    }
    interrupt_catch();
    read_events(&p);
    p.shows = !c->json;
    p.watch.due_ns = interrupt_deadline(POLL_MS);
    c->watch = &p.watch;
    c->patience_ms = ROLLOUT_MS;
    code = call_with(c, OP_RELOAD, &form);
    c->watch = NULL;
    c->patience_ms = 0;
    if (interrupt_seen() != 0) {
        out_note(&c->out, "the roll-out continues in the hub; 'afloat events --types "
                          "rollout.changed' shows it");
    }
    return code;
}
