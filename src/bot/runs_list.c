// Runs, listed: newest first, a page at a time.
//
//     walk the index: when, running?, of this repository? ──> sort ──> load one page
//
// There may be thousands, so only the records of the page are opened. A cursor is the place of the last row, not its
// number or its file: a run that ends, or goes, between two pages moves nothing.

#include "bot/run_int.h"
#include "bot/runs.h"
#include "bot/runs_int.h"
#include "fleet/fleet.h"

enum { LONGEST_LIST = 1000 };

struct row {
    int64_t started_at;
    char id[RECORD_ID];
    const struct runs_place *place;
};

struct listed {
    vec(struct row) all;
    vec(struct record) page;
    const char *repository; // as JSON, with its quotes; NULL: any
    struct str state;
    bool more; // after the page
};

static void free_listed(void *data)
{
    struct listed *l = data;
    vec_foreach (r, &l->page) {
        record_fini(r);
    }
    vec_fini(&l->all);
    vec_fini(&l->page);
    free(l);
}

static bool add_row(void *arg, const struct runs_entry *r)
{
    struct listed *l = arg;
    if (r->readable && (l->repository == NULL || strcmp(r->repository, l->repository) == 0) &&
        (l->state.n == 0 || str_eqz(l->state, r->running ? "running" : "ended"))) {
        struct row row = {.started_at = r->started_at, .place = r->place};
        memcpy(row.id, r->id, sizeof row.id);
        vec_push(&l->all, row);
    }
    return true;
}

/// Newest first; of the same time by id, so that pages fit together.
static int compare(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->started_at != y->started_at ? (x->started_at < y->started_at ? 1 : -1)
                                          : strcmp(y->id, x->id);
}

bool runs__cursor(struct str cursor, int64_t *started_at, struct str *id)
{
    uint64_t ms;
    struct str time = str_cut(&cursor, '-');
    if (!str_to_u64(time, &ms) || !record_id_valid(cursor)) {
        return false;
    }
    *started_at = (int64_t)ms;
    *id = cursor;
    return true;
}

/// Load the page after the place that `cursor` names, or the first one.
static void load_page(struct listed *l, struct str cursor, size_t limit)
{
    struct row last = {.started_at = INT64_MAX};
    struct str id;
    size_t i = 0;
    if (runs__cursor(cursor, &last.started_at, &id)) {
        snprintf(last.id, sizeof last.id, STR_FMT, STR_ARG(id));
    }
    while (i < l->all.n && compare(&l->all.p[i], &last) <= 0) {
        i++;
    }
    for (; i < l->all.n && l->page.n < limit; i++) {
        struct record rec;
        char *path = runs_index_path(l->all.p[i].place, l->all.p[i].id);
        if (runs_load(&rec, path, NULL) == 0) {
            vec_push(&l->page, rec);
        } else {
            record_fini(&rec); // broken, or gone since
        }
        free(path);
    }
    l->more = i < l->all.n;
}

/// The repository, or directory, of the caller as records have it.
static const char *repository_of(struct ask *a)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_strz(&w, a->git.main_root != NULL ? a->git.main_root : a->real);
    const char *out = arena_strdup(&a->arena, buf_str(&text));
    buf_fini(&text);
    return out;
}

static void read_list(struct ask *a) // on the lane
{
    struct listed *l = a->data;
    const char *project = a->ws.slug != NULL ? a->ws.slug : ask__z(a, "project");
    l->state = ask__str(a, "state");
    if (a->name == NULL && a->real != NULL && project == NULL) {
        l->repository = repository_of(a); // of a directory, whatever the bot
    }
    runs_index_each(a->b->index, a->name, project, add_row, l);
    if (l->all.n != 0) {
        qsort(l->all.p, l->all.n, sizeof *l->all.p, compare);
    }
    load_page(l, ask__str(a, "cursor"),
              (size_t)json_int(json_get(a->params, "limit"), RUNS_DEFAULT_LIST));
}

void runs__answer_page(struct ask *a, const struct record *page, size_t n, bool more)
{
    struct jw *w = &a->w;
    bool shared = fleet_shared(a->b->o.fleet); // then the rows are as new as what lives here
    jw_obj(w);
    jw_karr(w, "runs");
    for (size_t i = 0; i < n; i++) {
        const struct run *live = shared ? NULL : bots__run_of(a->b, str_of(page[i].run_id));
        jw_obj(w);
        record_write(live != NULL ? &live->rec : &page[i], w, false);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_key(w, "next");
    if (more && n != 0) {
        jw_strf(w, "%lld-%s", (long long)page[n - 1].started_at, page[n - 1].run_id);
    } else {
        jw_null(w);
    }
    jw_end_obj(w);
    ask__answer(a);
}

static void answer_list(struct ask *a)
{
    const struct listed *l = a->data;
    runs__answer_page(a, l->page.p, l->page.n, l->more);
}

static void list(struct ask *a)
{
    if (fleet_shared(a->b->o.fleet)) {
        runs__list_shared(a);
        return;
    }
    a->data = xcalloc(1, sizeof(struct listed));
    a->free_data = free_listed;
    ask__work(a, read_list, answer_list);
}

void bots_run_list(struct ask *a)
{
    static const char *const states[] = {"queued", "running", "ended"};
    struct str cursor = ask__str(a, "cursor"), state = ask__str(a, "state"), id;
    int64_t limit = json_int(json_get(a->params, "limit"), RUNS_DEFAULT_LIST), at;
    bool placed = ask__str(a, "bot").p != NULL &&
                  (ask__str(a, "working_dir").p != NULL || ask__str(a, "project").p != NULL);
    if (limit < 1 || limit > LONGEST_LIST) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", LONGEST_LIST);
        return;
    }
    if (cursor.n != 0 && !runs__cursor(cursor, &at, &id)) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "not a cursor of this list");
        return;
    }
    if (state.n != 0 && str_lookup(state, states, ARRAY_LEN(states)) < 0) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'state' must be queued, running or ended");
        return;
    }
    ask__locate(a, WHERE_LEFT | WHERE_GIT | (placed ? WHERE_SPACE : 0), list);
}
