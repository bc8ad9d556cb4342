// What bots did, and taking it over.

#include <unistd.h>

#include "cli/bots.h"
#include "cli/run_int.h"

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

// ---- list ----------------------------------------------------------------------------------

// What became of its work, in a word.
static struct str fate_of(const struct json *row)
{
    static const struct {
        const char *key;
        struct str fate;
    } fates[] = {{"merged_at", {"merged", 6}},
                 {"discarded_at", {"discarded", 9}},
                 {"applied_at", {"applied", 7}}};
    for (size_t i = 0; i < ARRAY_LEN(fates); i++) {
        if (text_of(row, fates[i].key).n != 0) {
            return fates[i].fate;
        }
    }
    return text_of(row, "action");
}

static enum out_tint tint_of(struct str state)
{
    return str_eqz(state, "running")                               ? OUT_GREEN
           : str_eqz(state, "failed") || str_eqz(state, "crashed") ? OUT_RED
           : str_eqz(state, "interrupted")                         ? OUT_YELLOW
                                                                   : OUT_PLAIN;
}

static void add_run(const struct json *row, void *arg)
{
    struct table *t = arg;
    struct str end = text_of(row, "end_reason"), summary = text_of(row, "summary");
    struct str state = end.n != 0 ? end : text_of(row, "state");
    table_add(t, OUT_BOLD, text_of(row, "run_id"));
    table_add(t, OUT_PLAIN, text_of(row, "bot"));
    table_add(t, OUT_DIM, text_of(row, "project"));
    table_add(t, tint_of(state), state);
    table_add(t, OUT_PLAIN, fate_of(row));
    table_add(t, OUT_DIM, text_of(row, "started_at"));
    table_add(t, OUT_YELLOW, text_of(row, "rescue"));
    table_add(t, OUT_PLAIN, summary.n != 0 ? summary : text_of(row, "prompt"));
}

int cmd_run_list(struct cli *c)
{
    struct table t;
    const struct ask_param params[] = {{"working_dir", NULL}, // of all places
                                       {"limit", c->json ? NULL : "1000"}};
    table_init(&t, 8);
    int code = bots__each(c, params, ARRAY_LEN(params), "runs", add_run, &t);
    table_print(&t, &c->out);
    if (code == EXIT_OK && !c->json && t.cells.n == 0) {
        out_note(&c->out, "there are none yet: 'afloat run BOT' begins one");
    }
    table_fini(&t);
    return code;
}

// ---- show ----------------------------------------------------------------------------------

static void print_iterations(struct cli *c, const struct json *iterations)
{
    struct table t;
    table_init(&t, 4);
    json_foreach_item (it, iterations) {
        struct str end = text_of(it, "end_reason");
        table_addf(&t, "#%lld", (long long)json_int(json_get(it, "number"), 0));
        table_add(&t, OUT_DIM, text_of(it, "session_id"));
        table_add(&t, tint_of(end), end.n != 0 ? end : STR("running"));
        table_add(&t, OUT_PLAIN, text_of(it, "summary"));
    }
    table_print(&t, &c->out);
    table_fini(&t);
}

static void print_record(struct cli *c, const struct json *v)
{
    static const char *const rows[] = {
        "run_id",    "bot",         "project",      "state",      "end_reason", "action",
        "error",     "prompt",      "summary",      "branch",     "rescue",     "base_branch",
        "worktree",  "repository",  "commits",      "started_at", "ended_at",   "applied_at",
        "merged_at", "merged_into", "discarded_at", "not_kept"};
    struct table t;
    table_init(&t, 2);
    bool ended = str_eqz(text_of(v, "state"), "ended");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!ended || strcmp(rows[i], "worktree") != 0) { // that is gone; where not, a note says so
            bots__add_row(&t, rows[i], json_get(v, rows[i]));
        }
    }
    table_print(&t, &c->out);
    table_fini(&t);
    print_iterations(c, json_get(v, "iterations"));
    json_foreach_item (note, json_get(v, "notes")) {
        struct str text = json_str(note, "");
        out_note(&c->out, STR_FMT, STR_ARG(text));
    }
}

// Call the command's operation for the run that its first word names.
static int ask_run(struct cli *c, struct arena *arena, const struct json **out)
{
    const struct args *a = &c->args;
    bool writes = c->cmd->op == OP_RUN_APPLY || c->cmd->op == OP_RUN_MERGE;
    char mask[CHAT_UMASK];
    const struct ask_param params[] = {
        {"id", args_word(a, 0)},
        {"umask", writes ? chat__umask(mask) : NULL},
        {"delete_branch", args_has(a, FLAG_DELETE_BRANCH) ? "true" : NULL},
        {"force", args_has(a, FLAG_AT_ONCE) ? "true" : NULL}};
    return bots__ask(c, params, ARRAY_LEN(params), arena, out);
}

int cmd_run_show(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    arena_init(&arena);
    int code = ask_run(c, &arena, &v);
    if (v != NULL) {
        print_record(c, v);
    }
    arena_fini(&arena);
    return code;
}

// ---- diff ----------------------------------------------------------------------------------

static enum out_tint line_tint(struct str line)
{
    static const struct {
        const char *start;
        enum out_tint tint;
    } tints[] = {{"+++", OUT_BOLD}, {"---", OUT_BOLD},  {"diff ", OUT_BOLD}, {"+", OUT_GREEN},
                 {"-", OUT_RED},    {"@@", OUT_YELLOW}, {"index ", OUT_DIM}};
    for (size_t i = 0; i < ARRAY_LEN(tints); i++) {
        if (str_starts(line, tints[i].start)) {
            return tints[i].tint;
        }
    }
    return OUT_PLAIN;
}

// A terminal is shown the patch, anything else gets it byte for byte.
static void print_patch(struct cli *c, struct str patch)
{
    if (!c->out.terminal && !c->out.color) {
        out_add(&c->out, patch);
        return;
    }
    while (patch.n != 0) {
        struct str line = str_cut(&patch, '\n');
        out_tinted(&c->out, line_tint(line), line);
        out_add(&c->out, STR("\n"));
    }
}

int cmd_run_diff(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    arena_init(&arena);
    int code = ask_run(c, &arena, &v);
    if (v != NULL) {
        struct str closed = text_of(v, "protected"), patch = text_of(v, "patch");
        print_patch(c, patch);
        if (json_bool(json_get(v, "cut"), false)) {
            out_error(&c->out, "the patch is cut; 'git diff' of the run's branch has all of it");
            code = EXIT_FAILED;
        } else if (patch.n == 0) {
            out_note(&c->out, "the bot changed nothing");
        }
        if (closed.n != 0) {
            out_note(&c->out, "'" STR_FMT "' is never merged by itself: look at it well",
                     STR_ARG(closed));
        }
    }
    arena_fini(&arena);
    return code;
}

// ---- taking over ---------------------------------------------------------------------------

// A run that did nothing: true, and that is said.
static bool say_nothing(struct cli *c, const struct json *v)
{
    struct str id = text_of(v, "run_id");
    if (json_int(json_get(v, "files"), 0) != 0) {
        return false;
    }
    out_note(&c->out, "run " STR_FMT " changed nothing: there is nothing to take over",
             STR_ARG(id));
    return true;
}

static void say_applied(struct cli *c, const struct json *v)
{
    struct str id = text_of(v, "run_id"), root = text_of(v, "root");
    if (say_nothing(c, v)) {
        return;
    }
    out_note(&c->out,
             "the changes of run " STR_FMT " are in '" STR_FMT
             "', uncommitted: 'git status' there shows them",
             STR_ARG(id), STR_ARG(root));
}

static void say_merged(struct cli *c, const struct json *v)
{
    struct str id = text_of(v, "run_id"), into = text_of(v, "merged_into");
    if (say_nothing(c, v)) {
        return;
    }
    out_note(&c->out, "run " STR_FMT " is merged into '" STR_FMT "'", STR_ARG(id), STR_ARG(into));
}

/// A rescue branch is never deleted with a run.
static void say_rescue(struct cli *c, struct str rescue)
{
    if (rescue.n != 0) {
        out_note(&c->out, "branch '" STR_FMT "', with the rest of its work, stays",
                 STR_ARG(rescue));
    }
}

static void say_discarded(struct cli *c, const struct json *v)
{
    struct str id = text_of(v, "run_id"), branch = text_of(v, "branch");
    if (args_has(&c->args, FLAG_DELETE_BRANCH)) {
        out_note(&c->out, "run " STR_FMT " is discarded, its branch is gone", STR_ARG(id));
        say_rescue(c, text_of(v, "rescue"));
    } else {
        out_note(&c->out,
                 "run " STR_FMT " is discarded; branch '" STR_FMT
                 "' stays, '--delete-branch' deletes it",
                 STR_ARG(id), STR_ARG(branch));
    }
}

static void say_stopped(struct cli *c, const struct json *v)
{
    follow__say_end(c, v, NULL);
}

// `apply`, `merge`, `discard` and `stop` answer with the record
int cmd_run_take(struct cli *c)
{
    static const struct {
        int op;
        void (*say)(struct cli *c, const struct json *v);
    } rows[] = {{OP_RUN_APPLY, say_applied},
                {OP_RUN_MERGE, say_merged},
                {OP_RUN_DISCARD, say_discarded},
                {OP_RUN_STOP, say_stopped}};
    struct arena arena;
    const struct json *v;
    arena_init(&arena);
    int code = ask_run(c, &arena, &v);
    for (size_t i = 0; i < ARRAY_LEN(rows) && v != NULL; i++) {
        if (rows[i].op == c->cmd->op) {
            rows[i].say(c, v);
        }
    }
    arena_fini(&arena);
    return code;
}

int cmd_run_remove(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    arena_init(&arena);
    int code = ask_run(c, &arena, &v);
    if (v != NULL) {
        struct str id = text_of(v, "deleted"), branch = text_of(v, "branch");
        out_note(&c->out, "run " STR_FMT " is forgotten%s" STR_FMT "%s", STR_ARG(id),
                 branch.n != 0 ? "; branch '" : "", STR_ARG(branch),
                 branch.n != 0 ? "' stays" : "");
        say_rescue(c, text_of(v, "rescue"));
    }
    arena_fini(&arena);
    return code;
}

// ---- attach --------------------------------------------------------------------------------

static int find_run(struct run_follow *f, const char *given)
{
    struct cli *c = f->chat->c;
    const struct json *v;
    const struct ask_param params[] = {{"id", given}};
    struct arena arena;
    arena_init(&arena);
    int code = ask_value(c, OP_RUN_SHOW, params, ARRAY_LEN(params), &arena, &v);
    if (code == EXIT_OK) {
        struct str id = text_of(v, "run_id");
        snprintf(f->id, sizeof f->id, STR_FMT, STR_ARG(id));
    }
    arena_fini(&arena);
    return code;
}

static int attach(struct chat *t, void *arg)
{
    struct run_follow f = {.chat = t, .watching = true, .look = true};
    arena_init(&f.arena);
    int code = find_run(&f, arg);
    if (code == EXIT_OK) {
        code = follow__mark(t->c, &f.mark);
    }
    if (code == EXIT_OK) {
        code = follow__run(&f);
    }
    if (code == EXIT_OK) {
        code = follow__say_end(t->c, f.end, &t->view);
    }
    arena_fini(&f.arena);
    return code;
}

int cmd_run_attach(struct cli *c)
{
    char *given = xstrdup(args_word(&c->args, 0));
    int code = chat__with(c, attach, given);
    free(given);
    return code;
}
