// The sessions of a bot, as lists.
//
// The store's index has a row for each session with the text of its metadata.json, so that a list is one
// query and no directory is read: a workspace with ten thousand sessions is listed, and its last five
// summaries found, without touching their files. Rows are parsed a page at a time.

#include "bot/history.h"

#include "base/json.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/vec.h"

enum {
    PAGE = 200,        // rows looked at in one turn of the loop
    RECENT_MAX = 20,   // that may be asked for
    RECENT_LOOK = 100, // rows that are looked at for them
    TABLE_CHARS = 80,
};

// ---- rows ---------------------------------------------------------------------------------------

static struct str text_of(const struct json *meta, const char *key)
{
    return json_str(json_get(meta, key), "");
}

static int64_t count_of(const struct json *v, int64_t fallback)
{
    int64_t n = json_int(v, fallback);
    return n >= 0 ? n : fallback;
}

struct history_row history_row_of(const struct store_row *r, struct arena *a)
{
    struct json *meta = NULL;
    struct history_row row = {
        .id = r->id, .dir = r->dir, .meta = r->meta, .started_at = r->started_at};
    if (json_parse(&meta, a, r->meta, NULL, NULL) < 0) {
        meta = NULL;
    }
    const struct json *tokens = json_get(meta, "tokens");
    row.number = (uint64_t)count_of(json_get(meta, "session_number"), 0);
    row.run_id = text_of(meta, "run_id");
    row.summary = text_of(meta, "response_summary");
    row.prompt = text_of(meta, "prompt_summary");
    row.action = text_of(meta, "action");
    row.end_reason = text_of(meta, "end_reason");
    row.model = text_of(meta, "model");
    row.branch = text_of(meta, "branch");
    row.duration_secs = count_of(json_get(meta, "duration_secs"), 0);
    row.commands = count_of(json_get(meta, "command_count"), 0);
    row.input_tokens = count_of(json_get(tokens, "input_tokens"), -1);
    row.output_tokens = count_of(json_get(tokens, "output_tokens"), -1);
    return row;
}

static bool is_space(uint32_t c)
{
    return c <= ' ' || (c >= 0x7F && c <= 0xA0) || c == 0x2028 || c == 0x2029;
}

void history_write_line(struct buf *out, struct str text, size_t max)
{
    size_t n = 0, before_dots = out->n;
    bool gap = false;
    for (size_t i = 0, len; i < text.n; i += len) {
        uint32_t c;
        char bytes[4];
        len = utf8_decode(str_from(text, i), &c);
        gap = gap || is_space(c);
        if (is_space(c)) {
            continue;
        }
        size_t need = gap && n != 0 ? 2 : 1;
        if (n + need > max) {
            buf_cut(out, before_dots);
            buf_addz(out, max > 3 ? "..." : "");
            return;
        }
        if (need == 2) {
            buf_addc(out, ' ');
        }
        buf_add(out, bytes, utf8_encode(c, bytes));
        n += need;
        gap = false;
        before_dots = n + 3 <= max ? out->n : before_dots;
    }
}

static void write_duration(char out[32], int64_t secs)
{
    int64_t hours = secs / 3600, minutes = secs / 60 % 60;
    if (hours != 0) {
        snprintf(out, 32, "%lldh%02lldm", (long long)hours, (long long)minutes);
    } else if (minutes != 0) {
        snprintf(out, 32, "%lldm%02llds", (long long)minutes, (long long)(secs % 60));
    } else {
        snprintf(out, 32, "%llds", (long long)secs);
    }
}

static void write_row(struct buf *out, const struct history_row *r)
{
    char time[TIME_TEXT] = "", duration[32];
    time_format(r->started_at, time);
    write_duration(duration, r->duration_secs);
    buf_addf(out, "%-8llu %.10s %.5s  %-8s  %-8lld  ", (unsigned long long)r->number, time,
             strlen(time) > 16 ? time + 11 : "", duration, (long long)r->commands);
    history_write_line(out, r->summary.n != 0 ? r->summary : r->prompt, TABLE_CHARS);
    buf_addc(out, '\n');
}

void history_write_table(struct buf *out, const struct history_row *rows, size_t n)
{
    if (n == 0) {
        buf_addz(out, "There are no sessions yet.\n");
        return;
    }
    buf_addf(out, "%-8s %-16s  %-8s  %-8s  %s\n", "Session", "Date", "Duration", "Commands",
             "Summary");
    for (size_t i = 0; i < n; i++) {
        write_row(out, &rows[i]);
    }
    buf_addf(out, "%zu session%s\n", n, n == 1 ? "" : "s");
}

// ---- asking the store ---------------------------------------------------------------------------

struct history_ask {
    struct store *store;
    char *dir; // "bots/.../history/"
    history_page_cb *cb;
    void *arg;
    bool recent;              // those with a summary alone
    size_t want;              // rows at most
    char *except;             // recent: a run
    char *which;              // find
    uint64_t number;          // find: 0 when it is none
    size_t matches;           // find: ids that begin so
    struct arena found_arena; // find: of `found`
    struct history_row found; // the first of them
};

static struct history_ask *ask_new(struct store *s, struct str rel, history_page_cb *cb, void *arg)
{
    struct history_ask *q = xcalloc(1, sizeof *q);
    q->store = s;
    q->dir = xasprintf(STR_FMT "/history/", STR_ARG(rel));
    q->cb = cb;
    q->arg = arg;
    q->want = SIZE_MAX;
    return q;
}

/// Answer, then free.
static void ask_end(struct history_ask *q, int status, const struct history_page *p,
                    const struct err *e)
{
    q->cb(q->arg, status, p, e);
    arena_fini(&q->found_arena);
    free(q->dir);
    free(q->except);
    free(q->which);
    free(q);
}

static void ask_store(struct history_ask *q, struct str id, struct str cursor, size_t limit,
                      store_rows_cb *cb)
{
    struct store_filter f = {.id = id, .dir = str_of(q->dir)};
    store_list(q->store, &f, cursor, limit, cb, q);
}

static void on_list(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct history_ask *q = arg;
    struct arena a = {0};
    vec(struct history_row) rows = {0};
    if (status < 0) {
        ask_end(q, status, NULL, e);
        return;
    }
    for (size_t i = 0; i < r->n && rows.n < q->want; i++) {
        struct history_row row = history_row_of(&r->rows[i], &a);
        bool own = q->except != NULL && str_eqz(row.run_id, q->except);
        if (!q->recent || (row.summary.n != 0 && !own)) {
            vec_push(&rows, row);
        }
    }
    struct history_page p = {rows.p, rows.n, q->recent ? STR_NULL : r->next};
    ask_end(q, 0, &p, NULL);
    vec_fini(&rows);
    arena_fini(&a);
}

void history_list(struct store *s, struct str rel, struct str cursor, size_t limit,
                  history_page_cb *cb, void *arg)
{
    ask_store(ask_new(s, rel, cb, arg), STR_NULL, cursor, limit, on_list);
}

void history_recent(struct store *s, struct str rel, size_t n, struct str except,
                    history_page_cb *cb, void *arg)
{
    struct history_ask *q = ask_new(s, rel, cb, arg);
    q->recent = true;
    q->want = MIN(n, (size_t)RECENT_MAX);
    q->except = except.n != 0 ? str_dup(except) : NULL;
    ask_store(q, STR_NULL, STR_NULL, RECENT_LOOK, on_list);
}

// ---- one of them --------------------------------------------------------------------------------

/// True when `r` is the session with the number; one whose id begins so is noted.
static bool look_at(struct history_ask *q, const struct store_row *r)
{
    struct arena a = {0};
    struct history_row row = history_row_of(r, &a);
    bool is_number = q->number != 0 && row.number == q->number;
    bool begins = str_starts(r->id, q->which);
    if (is_number || (begins && q->matches == 0)) {
        struct store_row kept = *r; // the page that it is from goes when the next one comes
        kept.id = arena_str(&q->found_arena, r->id);
        kept.dir = arena_str(&q->found_arena, r->dir);
        kept.meta = arena_str(&q->found_arena, r->meta);
        q->found = history_row_of(&kept, &q->found_arena);
    }
    q->matches += begins;
    arena_fini(&a);
    return is_number;
}

static void on_search(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct history_ask *q = arg;
    struct err own = {0};
    bool found = false;
    for (size_t i = 0; status == 0 && i < r->n && !found; i++) {
        found = look_at(q, &r->rows[i]);
    }
    if (status < 0) {
        ask_end(q, status, NULL, e);
    } else if (!found && r->next.n != 0) {
        ask_store(q, STR_NULL, r->next, PAGE, on_search);
    } else if (found || q->matches == 1) {
        ask_end(q, 0, &(struct history_page){&q->found, 1, STR_NULL}, NULL);
    } else if (q->matches > 1) {
        err_set(&own, ERR_CONFLICT, "%zu sessions begin with '%s': type more of it", q->matches,
                q->which);
        ask_end(q, own.code, NULL, &own);
    } else {
        err_set(&own, ERR_NOT_FOUND,
                "there is no session '%s' here; 'afloat history BOT' lists them", q->which);
        ask_end(q, own.code, NULL, &own);
    }
}

static void on_exact(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct history_ask *q = arg;
    if (status == 0 && r->n == 0) {
        ask_store(q, STR_NULL, STR_NULL, PAGE, on_search);
    } else {
        on_list(q, status, r, e);
    }
}

void history_find(struct store *s, struct str rel, struct str which, history_page_cb *cb, void *arg)
{
    struct history_ask *q = ask_new(s, rel, cb, arg);
    struct str digits = str_starts(which, "#") ? str_from(which, 1) : which;
    q->which = str_dup(which);
    if (!str_to_u64(digits, &q->number)) {
        q->number = 0;
    }
    ask_store(q, str_of(q->which), STR_NULL, 1, on_exact);
}
