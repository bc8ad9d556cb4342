// Bots, and what belongs to them: skills, memory, history. What they did is in cmd_runs.c.

#include "cli/call.h"
#include "view/view.h"

// ---- bots ----------------------------------------------------------------------------------

const struct form form_bot_list = {
    .layout = {"bots",
               COLUMNS(COL("NAME", ID, NULL), COL("SOURCE", DIM, NULL),
                       COL("DESCRIPTION", TEXT, "{error}||{description}")),
               "no bots yet; create one with 'afloat bots create NAME'"}};

const struct form form_bot_create = {.text = "{path}",
                                     .said = "bot '{$0}' created; run it with 'afloat run {$0}'"};

static void print_instructions(struct cli *c, const struct json *v)
{
    if (json_get_text(v, "instructions").n != 0) {
        out_add(&c->out, STR("\n"));
        view_text(&c->out, json_get_text(v, "instructions"));
    }
    show_diagnostics(c, v);
}

const struct form form_bot_show = {
    .layout = {.columns = COLUMNS(COL("name", TEXT, NULL), COL("description", TEXT, NULL),
                                  COL("path", TEXT, NULL), COL("project", TEXT, NULL),
                                  COL("error", TEXT, NULL), COL("*", TEXT, "settings"),
                                  COL("skills", TEXT, NULL), COL("memory", TEXT, "{memory_count}"),
                                  COL("sessions", TEXT, "{session_count}"))},
    .print = print_instructions};

const struct form form_bot_delete = {
    .said = "bot '{$0}' is in the trash; its memory and history {-history?are too:stay}"};

static int judge_import(struct cli *c, const struct json *v)
{
    (void)c;
    return json_int(json_get(v, "failed"), 0) == 0 ? EXIT_OK : EXIT_FAILED;
}

const struct form form_bot_import = {
    .words = "path",
    .layout = {"items",
               COLUMNS(COL("OUTCOME", STATE, NULL), COL("KIND", DIM, NULL), COL("NAME", ID, NULL),
                       COL("MESSAGE", LONG, NULL)),
               NULL},
    .said = "{taken} taken, {kept} kept, {warned} warned, {failed} failed",
    .judge = judge_import};

// ---- skills --------------------------------------------------------------------------------

const struct form form_skill_list = {
    .layout = {
        "skills",
        COLUMNS(COL("NAME", ID, NULL), COL("SOURCE", DIM, NULL), COL("DESCRIPTION", TEXT, NULL)),
        "no skills yet; save one with 'afloat skills save NAME FILE'"}};

const struct form form_skill_show = {
    .text = "{body}", .said = "{path}: {description}||{path}||it comes with the program"};

const struct form form_skill_save = {
    .words = "name body", .said = "skill '{$0}' saved; bots use it from their next iteration on"};

const struct form form_skill_remove = {.said = "skill '{$0}' is in the trash"};

// ---- memory --------------------------------------------------------------------------------

const struct form form_memory_show = {
    .layout = {"entries", COLUMNS(COL("KEY", ID, "{@}"), COL("VALUE", LONG, "{}")),
               "'{$0}' remembers nothing of '{project}' yet"}};

const struct form form_memory_get = {.text = "{value}"};
const struct form form_memory_set = {.said = "'{$0}' remembers '{$1}' of '{project}'"};
const struct form form_memory_remove = {.said = "'{$0}' has forgotten '{$1}' of '{project}'"};
const struct form form_memory_clear = {
    .said = "'{$0}' has forgotten {removed} entr{removed=1?y:ies} of '{project}'"};

// ---- history -------------------------------------------------------------------------------

const struct form form_history_list = {
    .layout = {"sessions",
               COLUMNS(COL("#", WORD, "#{session_number}"), COL("ID", ID, "{session_id}"),
                       COL("STARTED", TIME, "{started_at}"), COL("TOOK", WORD, "{duration_secs} s"),
                       COL("TOKENS", WORD, "{tokens.input_tokens}/{tokens.output_tokens} tokens"),
                       COL("END", STATE, "{end_reason}||running"), COL("ACTION", DIM, NULL),
                       COL("SUMMARY", TEXT, "{response_summary}||{prompt_summary}")),
               "'{$0}' has no sessions here yet; run it with 'afloat run {$0}'"}};

const struct form form_history_show = {.fixed = "limit", .fixed_value = "0", .text = "{view}"};
