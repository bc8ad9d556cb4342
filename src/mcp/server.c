// The life of one server.
//
//     start ──> handshake ──> lists ──> ready ──┬─ a list changed ──> that list again
//       ▲                                       └─ it ended, for whatever reason
//       └──────── 1 s, 2 s, 4 s ... 60 s ────────── failed <──┘
//
// While it is started again its tools stay in the generation, and calls of them fail with the reason: a model that
// loses its tools for a second forgets about them. After a few failures in a row they are withdrawn.
//
// "List changes before the next step": a server tells of a change before it answers the call that made it, so an
// answer that comes while a list is being read waits for that list (offer.c). A server whose lists change all the time
// is asked for a few of them in each window of time; no call waits for those after them.
//
// Invariants:
//   - `peer` exists exactly while the state is starting or ready.
//   - at most one list is read at a time; `pages` belong to it.

#include <assert.h>

#include "base/log.h"
#include "base/time.h"
#include "mcp/server_int.h"

enum {
    FIRST_PAUSE_MS = 1000,
    LAST_PAUSE_MS = 60000,
    STEADY_MS = 60000, // after so long the next failure is the first again
    TRIES_KEPT = 4,    // failures in a row until tools are withdrawn
    RELIST_MS = 5000,  // for a list that changed
    WINDOW_MS = 10000, // in which at most
    READS_MAX = 20,    // lists are read
    PAGES_MAX = 100,
    LIST_BYTES_MAX = 32 << 20,
    RESOURCES_MAX = 2000,
};

const char *mcp__state_name(enum mcp_state state)
{
    static const char *const names[] = {[MCP_STARTING] = "starting",
                                        [MCP_READY] = "ready",
                                        [MCP_FAILED] = "failed",
                                        [MCP_DISABLED] = "disabled"};
    return names[state];
}

static void set_state(struct mcp_server *s, enum mcp_state state, const char *error)
{
    char *kept = error != NULL ? xstrdup(error) : NULL;
    free(s->error);
    s->error = kept;
    s->state = state;
    if (state != MCP_STARTING && s->first) {
        s->first = false;
        mcp__wake(s->all);
    }
}

static void forget_pages(struct mcp_server *s)
{
    vec_fini_each(&s->pages, free);
    s->n_pages = s->bytes = 0;
}

static void close_peer(struct mcp_server *s)
{
    if (s->peer != NULL) {
        mcp_peer_close(s->peer);
        s->peer = NULL;
    }
    forget_pages(s);
    timer_stop(&s->window);
    for (size_t i = 0; i < MCP__LISTS; i++) {
        s->stale[i] = false;
    }
}

static void fail(struct mcp_server *s, const struct err *e)
{
    close_peer(s);
    mcp__flush_held(s);
    mcp__end_calls(s, e->msg);
    if (s->ready_at != 0 && loop_now(s->all->o.hub->loop) - s->ready_at > STEADY_MS) {
        s->tries = 0;
    }
    s->ready_at = 0;
    unsigned shift = MIN(s->tries, 6U);
    uint64_t pause = MIN((uint64_t)FIRST_PAUSE_MS << shift, (uint64_t)LAST_PAUSE_MS);
    s->tries++;
    set_state(s, MCP_FAILED, e->msg);
    log_warn(LOG_HUB, "mcp=%s state=failed try=%u reason=%s", LOGQ(str_of(s->spec->name)).z,
             s->tries, LOGQ(str_of(e->msg)).z);
    if (s->tested != NULL) {
        s->tested(s, s->tested_arg);
        return;
    }
    if (s->tries >= TRIES_KEPT) {
        mcp__withdraw(s);
    }
    if (!s->all->stopped) {
        timer_start(&s->again, pause);
    }
}

// ---- lists ----------------------------------------------------------------------------------

static const struct {
    const char *method, *member;
} lists[] = {[MCP_TOOLS] = {"tools/list", "tools"},
             [MCP_PROMPTS] = {"prompts/list", "prompts"},
             [MCP_RESOURCES] = {"resources/list", "resources"},
             [MCP_TEMPLATES] = {"resources/templates/list", "resourceTemplates"}};

static void read_lists(struct mcp_server *s);

/// Take the member `key` of each item.
static void take_addresses(mcp_addresses *out, const struct json *items, const char *key)
{
    vec_fini_each(out, free);
    json_foreach_item (it, items) {
        struct str uri = json_get_text(it, key);
        if (uri.n != 0 && memchr(uri.p, '\0', uri.n) == NULL && out->n < RESOURCES_MAX) {
            vec_push(out, str_dup(uri));
        }
    }
}

/// All pages as one array.
static void take_list(struct mcp_server *s, enum mcp_list list)
{
    struct arena a = {0};
    struct json *v;
    struct buf all = {.max = SIZE_MAX};
    buf_addc(&all, '[');
    for (size_t i = 0; i < s->pages.n; i++) {
        struct str items = str_trim(str_of(s->pages.p[i]));
        struct str inner = {items.p + 1, items.n - 2};
        buf_addz(&all, all.n > 1 && inner.n != 0 ? "," : "");
        buf_adds(&all, inner);
    }
    buf_addc(&all, ']');
    forget_pages(s);
    bool good = json_parse(&v, &a, buf_str(&all), NULL, NULL) == 0;
    if (good && list == MCP_RESOURCES) {
        take_addresses(&s->resources, v, "uri");
    } else if (good && list == MCP_TEMPLATES) {
        take_addresses(&s->templates, v, "uriTemplate");
    } else if (good) {
        mcp__offer_list(s, list, v);
    }
    buf_fini(&all);
    arena_fini(&a);
}

static void ask_page(struct mcp_server *s, enum mcp_list list, struct str cursor)
{
    struct buf members = {.max = SIZE_MAX};
    struct jw w;
    if (cursor.n != 0) {
        buf_addz(&members, "\"cursor\":");
        jw_init(&w, &members);
        jw_str(&w, cursor);
    }
    mcp_peer_ask(s->peer, &s->list[list], lists[list].method, buf_str(&members), STR_NULL);
    buf_fini(&members);
}

static void on_page(struct mcp_request *r, int status, const struct json *result,
                    const struct err *e)
{
    struct mcp_server *s = r->arg;
    enum mcp_list list = (enum mcp_list)(r - s->list);
    const struct json *items = json_get(result, lists[list].member);
    struct str next = json_get_text(result, "nextCursor");
    struct err why;
    if (status < 0 && (s->state == MCP_READY || list != MCP_TOOLS)) { // the list before continues
        if (list != MCP_TEMPLATES) { // many servers with resources do not know this method
            log_warn(LOG_HUB, "mcp=%s list=%s reason=%s", LOGQ(str_of(s->spec->name)).z,
                     lists[list].member, LOGQ(str_of(e->msg)).z);
        }
        forget_pages(s);
        read_lists(s);
        return;
    }
    if (status < 0) {
        err_set(&why, e->code, "%s: %.180s", lists[list].method, e->msg);
        fail(s, &why);
        return;
    }
    struct buf text = {.max = LIST_BYTES_MAX};
    json_write(&text,
               items != NULL && items->type == JSON_ARR ? items : &(struct json){.type = JSON_ARR},
               0);
    s->bytes += text.n;
    s->n_pages++;
    if (s->n_pages > PAGES_MAX || s->bytes > LIST_BYTES_MAX || !buf_ok(&text)) {
        buf_fini(&text);
        err_set(&why, ERR_TOO_LARGE, "its list of %s is too long", lists[list].member);
        fail(s, &why);
        return;
    }
    vec_push(&s->pages, buf_take(&text, NULL));
    buf_fini(&text);
    if (next.n != 0) {
        ask_page(s, list, next);
        return;
    }
    take_list(s, list);
    read_lists(s);
}

bool mcp__server_listing(const struct mcp_server *s)
{
    bool any = false;
    for (size_t i = 0; i < MCP__LISTS; i++) {
        any = any || s->list[i].id != 0 || (s->stale[i] && !timer_running(&s->window));
    }
    return any;
}

/// Take one of the reads of lists that this window has. False: none is left, and the window's end asks again.
static bool take_read(struct mcp_server *s)
{
    uint64_t now = loop_now(s->all->o.hub->loop);
    if (now >= s->window_end) {
        s->window_end = now + WINDOW_MS;
        s->reads = 0;
    }
    if (s->reads < READS_MAX) {
        s->reads++;
        return true;
    }
    timer_start(&s->window, s->window_end - now);
    return false;
}

/// Read the next list that is not known, or is another one, in turn; when there is none, it is ready.
static void read_lists(struct mcp_server *s)
{
    for (size_t i = 1; i <= MCP__LISTS && s->peer != NULL; i++) {
        enum mcp_list list = (enum mcp_list)(((size_t)s->last + i) % MCP__LISTS);
        if (s->stale[list] && take_read(s)) {
            // its start does not wait long for templates
            bool brief = s->state == MCP_READY || list == MCP_TEMPLATES;
            uint64_t ms = s->spec->timeout_ms;
            s->stale[list] = false;
            s->last = list;
            s->list[list] = (struct mcp_request){
                .done = on_page, .arg = s, .timeout_ms = brief ? MIN(ms, (uint64_t)RELIST_MS) : ms};
            ask_page(s, list, STR_NULL);
            return;
        }
    }
    if (s->peer != NULL && s->state == MCP_STARTING) {
        s->ready_at = loop_now(s->all->o.hub->loop);
        set_state(s, MCP_READY, NULL);
        log_info(LOG_HUB, "mcp=%s state=ready version=%s tools=%zu", LOGQ(str_of(s->spec->name)).z,
                 s->version, s->offers.n);
        if (s->tested != NULL) {
            s->tested(s, s->tested_arg);
            return;
        }
    }
    mcp__flush_held(s);
}

// ---- the peer -------------------------------------------------------------------------------

static void on_ready(void *arg)
{
    struct mcp_server *s = arg;
    snprintf(s->version, sizeof s->version, "%s", mcp_peer_version(s->peer));
    snprintf(s->title, sizeof s->title, "%s", mcp_peer_title(s->peer));
    s->last = MCP__LISTS - 1;
    s->window_end = 0;
    for (size_t i = 0; i < MCP__LISTS; i++) {
        s->stale[i] = mcp_peer_has(s->peer, (enum mcp_list)i);
    }
    read_lists(s);
}

void mcp__server_relist(struct mcp_server *s, enum mcp_list list)
{
    if (s->peer == NULL || !mcp_peer_has(s->peer, list)) {
        return;
    }
    bool busy = s->state != MCP_READY || mcp__server_listing(s) || timer_running(&s->window);
    s->stale[list] = true;
    if (!busy) {
        read_lists(s);
    }
}

static void on_changed(void *arg, enum mcp_list list)
{
    struct mcp_server *s = arg;
    s->stale[MCP_TEMPLATES] =
        s->stale[MCP_TEMPLATES] || (list == MCP_RESOURCES && mcp_peer_has(s->peer, MCP_TEMPLATES));
    mcp__server_relist(s, list);
}

static void on_end(void *arg, const struct err *e)
{
    fail(arg, e);
}

static void on_log(void *arg, struct str level, struct str text)
{
    struct mcp_server *s = arg;
    if (s->log.n == MCP_LOG_LINES) {
        free(s->log.p[0]);
        vec_remove(&s->log, 0);
    }
    vec_push(&s->log, xasprintf(STR_FMT ": " STR_FMT, STR_ARG(level), STR_ARG(text)));
}

static void on_window(void *arg)
{
    read_lists(arg);
}

static void on_again(void *arg)
{
    mcp__server_start(arg);
}

// ---- public ---------------------------------------------------------------------------------

struct mcp_server *mcp__server_new(struct mcp *all, struct mcp_spec *spec)
{
    struct mcp_server *s = xcalloc(1, sizeof *s);
    s->all = all;
    s->spec = spec;
    s->first = true;
    s->state = MCP_STARTING;
    all->alive++;
    timer_init(&s->again, all->o.hub->loop, on_again, s);
    timer_init(&s->window, all->o.hub->loop, on_window, s);
    return s;
}

void mcp__server_start(struct mcp_server *s)
{
    static const struct mcp_peer_cb cb = {.on_ready = on_ready,
                                          .on_changed = on_changed,
                                          .on_end = on_end,
                                          .on_request = mcp__server_asks,
                                          .on_given_up = mcp__server_gives_up,
                                          .on_log = on_log};
    assert(s->peer == NULL && !s->closed);
    if (s->spec->error != NULL) {
        s->tries = TRIES_KEPT;
        set_state(s, MCP_FAILED, s->spec->error);
        if (s->tested != NULL) {
            s->tested(s, s->tested_arg);
        }
        return;
    }
    if (!s->approvals_read) {
        s->wants_start = true;
        mcp__approvals_read(s);
        return;
    }
    set_state(s, MCP_STARTING, NULL);
    s->peer = mcp_peer_open(&s->all->world, s->spec, &cb, s);
}

void mcp__server_close(struct mcp_server *s)
{
    if (!s->closed) {
        s->closed = true;
        timer_stop(&s->again);
        close_peer(s);
        mcp__flush_held(s);
        mcp__end_calls(s, "it was removed");
    }
    assert(s->calls == NULL && s->held == NULL);
    if (s->reading == 0) {
        s->all->alive--;
        mcp__offers_free(s);
        vec_fini_each(&s->resources, free);
        vec_fini_each(&s->templates, free);
        vec_fini_each(&s->log, free);
        mcp__approvals_free(s);
        mcp_spec_free(s->spec);
        free(s->error);
        free(s);
    }
}

static void write_offers(const struct mcp_server *s, enum gen_kind kind, bool whole, struct jw *w)
{
    jw_arr(w);
    vec_foreach (it, &s->offers) {
        const struct mcp_offer *o = *it;
        if (o->kind != kind) {
            continue;
        }
        if (!whole) {
            jw_strz(w, o->name);
            continue;
        }
        jw_obj(w);
        jw_kstrz(w, "name", o->name);
        jw_kstrz(w, "description", o->description);
        if (o->changed) {
            jw_kbool(w, "changed", true);
        }
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

void mcp__server_write(const struct mcp_server *s, bool whole, struct jw *w)
{
    const struct mcp_spec *spec = s->spec;
    jw_kstrz(w, "name", spec->name);
    jw_kstrz(w, "state", mcp__state_name(s->state));
    jw_key(w, "tools");
    write_offers(s, GEN_TOOL, whole, w);
    jw_key(w, "prompts");
    write_offers(s, GEN_COMMAND, whole, w);
    jw_kstrs(w, "resources", (const char *const *)s->resources.p, s->resources.n);
    jw_kstrs(w, "templates", (const char *const *)s->templates.p, s->templates.n);
    jw_kstrz(w, "error", s->error);
    jw_kstrz(w, "transport", spec->url != NULL ? "http" : "stdio");
    jw_kstrz(w, "project", spec->project);
    if (spec->session != NULL) {
        jw_kstrz(w, "session", spec->session);
    }
    jw_ktext(w, "server", str_of(s->title));
    jw_ktext(w, "protocol", str_of(s->version));
    if (!whole) {
        return;
    }
    jw_kstrz(w, spec->url != NULL ? "url" : "command",
             spec->url != NULL ? spec->url : spec->command);
    jw_kbool(w, "sandbox", spec->sandbox && spec->url == NULL);
    jw_kint(w, "timeout_s", (int64_t)(spec->timeout_ms / 1000));
    jw_karr(w, "log");
    vec_foreach (it, &s->log) {
        jw_strz(w, *it);
    }
    jw_end_arr(w);
    if (s->peer != NULL) {
        int pid = mcp_peer_pid(s->peer);
        struct str said = mcp_peer_said(s->peer);
        if (pid != 0) {
            jw_kint(w, "pid", pid);
        }
        if (said.n != 0) {
            jw_kstr(w, "stderr", said);
        }
    }
}
