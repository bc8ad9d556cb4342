// The directories in which bots work: what there is, and taking away what no run lives in.

#include "cli/bots.h"

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

static void add_size(struct table *t, int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    size_t unit = 0;
    while (n >= 1024 && unit < ARRAY_LEN(units) - 1) {
        n /= 1024;
        unit++;
    }
    table_addf(t, unit == 0 ? "%.0f %s" : "%.1f %s", n, units[unit]);
}

static void add_age(struct table *t, int64_t seconds)
{
    static const struct {
        int64_t seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (seconds >= units[i].seconds || i == ARRAY_LEN(units) - 1) {
            table_addf(t, "%lld %s", (long long)(seconds / units[i].seconds), units[i].unit);
            return;
        }
    }
}

static void add_worktree(const struct json *row, void *arg)
{
    struct table *t = arg;
    struct str bot = text_of(row, "bot"), run = text_of(row, "run_id");
    int64_t files = json_int(json_get(row, "uncommitted"), 0);
    int64_t commits = json_int(json_get(row, "unmerged"), 0);
    bool live = str_eqz(text_of(row, "state"), "live");
    table_add(t, OUT_BOLD, text_of(row, "path"));
    table_addf(t, STR_FMT " " STR_FMT, STR_ARG(bot), STR_ARG(run));
    table_add(t, live ? OUT_GREEN : OUT_DIM, text_of(row, "state"));
    add_size(t, json_int(json_get(row, "bytes"), 0));
    add_age(t, json_int(json_get(row, "age_s"), 0));
    table_addf(t, "%lld uncommitted, %lld unmerged", (long long)files, (long long)commits);
}

int cmd_worktree_list(struct cli *c)
{
    struct table t;
    table_init(&t, 6);
    int code = bots__each(c, NULL, 0, "worktrees", add_worktree, &t);
    table_print(&t, &c->out);
    if (code == EXIT_OK && !c->json && t.cells.n == 0) {
        out_note(&c->out, "there are none: a run has one only while it lasts");
    }
    table_fini(&t);
    return code;
}

int cmd_worktree_clean(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    bool dry = args_has(&c->args, FLAG_DRY_RUN);
    size_t n = 0;
    const struct ask_param params[] = {
        {"dry_run", dry ? "true" : NULL},
        {"delete_branch", args_has(&c->args, FLAG_DELETE_BRANCH) ? "true" : NULL}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    json_foreach_item (path, json_get(v, "removed")) {
        out_text(&c->out, json_str(path, ""));
        out_add(&c->out, STR("\n"));
        n++;
    }
    json_foreach_item (rescue, json_get(v, "rescued")) {
        struct str branch = json_str(rescue, "");
        out_note(&c->out, "branch '" STR_FMT "', with the rest of a run's work, stays",
                 STR_ARG(branch));
    }
    json_foreach_item (kept, json_get(v, "kept")) {
        struct str path = text_of(kept, "path"), why = text_of(kept, "why");
        out_note(&c->out, "kept '" STR_FMT "': " STR_FMT, STR_ARG(path), STR_ARG(why));
    }
    if (v != NULL) {
        out_note(&c->out, "%zu %s", n, dry ? "would be removed" : "removed");
    }
    arena_fini(&arena);
    return code;
}
