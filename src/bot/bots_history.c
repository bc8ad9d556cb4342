// The sessions of a bot in a workspace, for people; models have a tool (tools.c).

#include "base/time.h"
#include "bot/ask.h"
#include "bot/history.h"
#include "bot/history_view.h"

enum { DEFAULT_LIST = 50, LONGEST_LIST = 1000 };

/// A number among the parameters. False: it was out of range, and that is answered.
static bool take_number(struct ask *a, const char *key, int64_t fallback, int64_t max, int64_t *out)
{
    *out = json_int(json_get(a->params, key), fallback);
    if (*out < 0 || *out > max) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'%s' must be 0 to %lld", key, (long long)max);
        return false;
    }
    return true;
}

// ---- list ---------------------------------------------------------------------------------------

static void write_row(struct jw *w, const struct history_row *r)
{
    char when[TIME_TEXT];
    jw_obj(w);
    jw_kstr(w, "session_id", r->id);
    jw_kint(w, "session_number", (int64_t)r->number);
    jw_ktext(w, "run_id", r->run_id);
    jw_kstrz(w, "started_at", time_format(r->started_at, when));
    jw_kint(w, "duration_secs", r->duration_secs);
    jw_ktext(w, "model", r->model);
    jw_ktext(w, "prompt_summary", r->prompt);
    jw_ktext(w, "response_summary", r->summary);
    jw_ktext(w, "action", r->action);
    jw_ktext(w, "end_reason", r->end_reason);
    jw_ktext(w, "branch", r->branch);
    jw_kint(w, "command_count", r->commands);
    jw_kobj(w, "tokens");
    jw_kint_or_null(w, "input_tokens", r->input_tokens >= 0, r->input_tokens);
    jw_kint_or_null(w, "output_tokens", r->output_tokens >= 0, r->output_tokens);
    jw_end_obj(w);
    jw_end_obj(w);
}

static void on_page(void *arg, int status, const struct history_page *p, const struct err *e)
{
    struct ask *a = arg;
    struct jw *w = ask__begin_answer(a, status, e);
    if (w == NULL) {
        return;
    }
    jw_kstrz(w, "project", a->ws.slug);
    jw_karr(w, "sessions");
    for (size_t i = 0; i < p->n; i++) {
        write_row(w, &p->rows[i]);
    }
    jw_end_arr(w);
    jw_ktext(w, "next", p->next);
    jw_end_obj(w);
    ask__answer(a);
}

static void list(struct ask *a)
{
    int64_t limit;
    if (take_number(a, "limit", DEFAULT_LIST, LONGEST_LIST, &limit)) {
        history_list(a->b->store, str_of(a->ws.rel), ask__str(a, "cursor"),
                     limit != 0 ? (size_t)limit : LONGEST_LIST, on_page, a);
    }
}

void bots_history_list(struct ask *a)
{
    ask__locate(a, WHERE_LEFT | WHERE_SPACE, list);
}

// ---- show ---------------------------------------------------------------------------------------

static void read_session(struct ask *a) // on the lane
{
    const struct history_row *row = a->data;
    struct json *meta = NULL;
    struct buf view = {.max = SIZE_MAX};
    struct history_wish wish = {.offset = (uint64_t)json_int(json_get(a->params, "offset"), 0),
                                .limit = (uint64_t)json_int(json_get(a->params, "limit"), 0)};
    struct str section = ask__str(a, "section");
    if (section.p != NULL && !history_section_parse(section, &wish.section)) {
        a->rc = err_set(&a->e, ERR_INVALID, "'section' is all, response or commands");
        return;
    }
    jw_obj(&a->w);
    if (json_parse(&meta, &a->arena, row->meta, NULL, NULL) == 0) {
        json_foreach_member (m, meta) {
            jw_key_str(&a->w, m->key);
            jw_value(&a->w, &m->value);
        }
    }
    a->rc = history_view(&view, &a->w, a->b->shelf, row->dir.p, &wish, &a->e);
    jw_kstr(&a->w, "view", buf_str(&view));
    jw_end_obj(&a->w);
    buf_fini(&view);
}

static void on_found(void *arg, int status, const struct history_page *p, const struct err *e)
{
    struct ask *a = arg;
    if (status < 0) {
        ask__fail(a, e);
        return;
    }
    struct history_row *row = arena_calloc(&a->arena, 1, sizeof *row);
    row->dir = str_of(arena_printf(&a->arena, "%s/" STR_FMT, a->b->home, STR_ARG(p->rows[0].dir)));
    row->meta = arena_str(&a->arena, p->rows[0].meta);
    a->data = row; // all that is needed of it
    ask__work(a, read_session, ask__answer);
}

static void show(struct ask *a)
{
    int64_t n;
    if (take_number(a, "offset", 0, INT64_MAX, &n) && take_number(a, "limit", 0, INT64_MAX, &n)) {
        history_find(a->b->store, str_of(a->ws.rel), ask__str(a, "id"), on_found, a);
    }
}

void bots_history_show(struct ask *a)
{
    ask__locate(a, WHERE_LEFT | WHERE_SPACE, show);
}
