// Runs and worktrees of bots: list, show, diff, and taking over what a bot did.

#include "cli/call.h"
#include "cli/run_end.h"

// ---- list and show -------------------------------------------------------------------------

const struct form form_run_list = {
    .anywhere = true,
    .layout = {
        "runs",
        COLUMNS(COL("RUN", ID, "{run_id}"), COL("BOT", WORD, NULL), COL("PROJECT", DIM, NULL),
                COL("STATE", STATE, "{end_reason}||{state}"),
                COL("WORK", WORD,
                    "{merged_at?merged}||{discarded_at?discarded}||{applied_at?applied}||{action}"),
                COL("STARTED", TIME, "{started_at}"), COL("RESCUE", WORD, NULL),
                COL("SUMMARY", TEXT, "{summary}||{prompt}")),
        "no runs yet; start one with 'afloat run BOT'"}};

static void print_iterations(struct cli *c, const struct json *v)
{
    show_rows(c,
              COLUMNS(COL("#", WORD, "#{number}"), COL("SESSION", ID, "{session_id}"),
                      COL("END", STATE, "{end_reason}||running"), COL("SUMMARY", TEXT, NULL)),
              json_get(v, "iterations"));
    json_foreach_item (note, json_get(v, "notes")) {
        show_note(c, "{}", note);
    }
}

/// The worktree of an ended run is gone; where it is not, a note says so.
static void add_worktree(struct buf *out, const struct json *v)
{
    if (!str_eqz(json_get_text(v, "state"), "ended")) {
        buf_adds(out, json_get_text(v, "worktree"));
    }
}

const struct form form_run_show = {
    .layout = {.columns = COLUMNS(
                   COL("run_id", TEXT, NULL), COL("bot", TEXT, NULL), COL("project", TEXT, NULL),
                   COL("state", STATE, NULL), COL("end_reason", STATE, NULL),
                   COL("action", TEXT, NULL), COL("error", TEXT, NULL), COL("prompt", TEXT, NULL),
                   COL("summary", TEXT, NULL), COL("branch", TEXT, NULL), COL("rescue", TEXT, NULL),
                   COL("base_branch", TEXT, NULL), COL_FN("worktree", TEXT, add_worktree),
                   COL("remote", TEXT, NULL), COL("hub", TEXT, NULL), COL("repository", TEXT, NULL),
                   COL("commits", TEXT, NULL), COL("started_at", TIME, NULL),
                   COL("ended_at", TIME, NULL), COL("applied_at", TIME, NULL),
                   COL("merged_at", TIME, NULL), COL("merged_into", TEXT, NULL),
                   COL("discarded_at", TIME, NULL), COL("not_kept", TEXT, NULL))},
    .print = print_iterations};

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
static void print_patch(struct cli *c, const struct json *v)
{
    struct str patch = json_get_text(v, "patch");
    if (patch.n == 0) {
        out_note(&c->out, "the bot changed nothing");
    }
    if (!c->out.terminal && !c->out.color) {
        out_add(&c->out, patch);
        patch.n = 0;
    }
    while (patch.n != 0) {
        struct str line = str_cut(&patch, '\n');
        out_tinted(&c->out, line_tint(line), line);
        out_add(&c->out, STR("\n"));
    }
    if (json_get_text(v, "protected").n != 0) {
        show_note(c, "'{protected}' is never merged automatically: review it", v);
    }
}

static int judge_patch(struct cli *c, const struct json *v)
{
    if (!json_bool(json_get(v, "cut"), false)) {
        return EXIT_OK;
    }
    out_error(&c->out, "the patch is too long and was cut; use 'git diff' on the run's branch");
    return EXIT_FAILED;
}

const struct form form_run_diff = {.print = print_patch, .judge = judge_patch};

// ---- taking over ---------------------------------------------------------------------------

const struct form form_run_apply = {
    .said =
        "{written?the} changes of run {run_id} are in '{root}', uncommitted; 'git status' there "
        "lists them||run {run_id} changed nothing{files? that is not there already}: there is "
        "nothing to take over"};

const struct form form_run_merge = {
    .said = "{files?run} {run_id} is merged into '{merged_into}'"
            "||run {run_id} changed nothing: there is nothing to take over"};

/// A rescue branch is never deleted with a run.
static void say_rescue(struct cli *c, const struct json *v)
{
    if (json_get_text(v, "rescue").n != 0) {
        show_note(c, "branch '{rescue}', with the rest of its work, stays", v);
    }
}

static void say_discarded(struct cli *c, const struct json *v)
{
    bool deleted = args_has(&c->args, FLAG_DELETE_BRANCH);
    show_note(c,
              deleted ? "run {run_id} is discarded, its branch is deleted"
                      : "run {run_id} is discarded; branch '{branch}' stays, '--delete-branch' "
                        "deletes it",
              v);
    if (deleted) {
        say_rescue(c, v);
    }
}

const struct form form_run_discard = {.print = say_discarded};

const struct form form_run_remove = {
    .said = "run {deleted} is deleted; branch '{branch}' stays||run {deleted} is deleted",
    .print = say_rescue};

static void say_stopped(struct cli *c, const struct json *v)
{
    run_end_say(c, v, NULL);
}

const struct form form_run_stop = {.print = say_stopped};

// ---- worktrees -----------------------------------------------------------------------------

const struct form form_worktree_list = {
    .layout = {"worktrees",
               COLUMNS(COL("PATH", ID, NULL), COL("OWNER", WORD, "{bot} {run_id}"),
                       COL("STATE", STATE, NULL), COL("SIZE", SIZE, "{bytes}"),
                       COL("AGE", SPAN, "{age_s}"),
                       COL("WORK", WORD, "{uncommitted} uncommitted, {unmerged} unmerged")),
               "no worktrees; a run has one only while it lasts"}};

static void say_kept(struct cli *c, const struct json *v)
{
    json_foreach_item (rescue, json_get(v, "rescued")) {
        show_note(c, "branch '{}', with the rest of a run's work, stays", rescue);
    }
    json_foreach_item (kept, json_get(v, "kept")) {
        show_note(c, "kept '{path}': {why}", kept);
    }
}

const struct form form_worktree_clean = {
    .layout = {"removed", COLUMNS(COL("PATH", ID, "{}")), NULL},
    .print = say_kept,
    .said = "{#removed} {-dry-run?would be removed:removed}"};
