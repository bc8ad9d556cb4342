// Bots, their memory, skills, history, runs and worktrees: thin faces over bot/bots.h, whose functions
// take an operation's parameters and answer with a JSON text.

#include "api/api_int.h"
#include "api/handlers.h"
#include "api/policy.h"
#include "bot/bots.h"
#include "proto/events.h"

/// One operation while bot/ works on it.
struct bot_op { // in the arena of the call
    struct op_call *call;
    int status;           // of success
    bool changes;         // the list of bots is another one then
    const char *location; // of what was made: its path, up to the name; NULL: nothing is
};

static void answer(void *arg, struct str json, const char *name, const struct agent_no *no)
{
    const struct bot_op *o = arg;
    struct op_call *c = o->call;
    if (no != NULL) {
        api__refuse(c, no);
        return;
    }
    if (o->location != NULL) {
        c->location = arena_printf(c->arena, "%s%s", o->location, name);
    }
    if (o->changes) {
        const struct json *bot = json_get(c->params, "bot");
        struct buf fields = {.max = SIZE_MAX};
        struct jw w = {.out = &fields};
        jw_obj(&w);
        jw_kstr(&w, "bot", json_str(bot, name));
        jw_end_obj(&w);
        event_emit_object(c->api->o.hub->events, EVENT_BOT_CHANGED, &fields);
    }
    op_answer(c, o->status, json);
}

static void ask(struct api *api, struct op_call *c, bots_fn *fn, const struct bot_op *as)
{
    if (api->bots == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "there are no bots: the hub starts or stops");
        return;
    }
    assert(as->status >= 200 && as->status < 300);
    struct bot_op *o = arena_alloc(c->arena, sizeof *o);
    *o = *as;
    o->call = c;
    bots_ask(api->bots, fn, c->params, answer, o);
}

#define ASK(id, fn)                                                                                \
    void op_##id(struct api *api, struct op_call *c)                                               \
    {                                                                                              \
        ask(api, c, fn, &(struct bot_op){.status = 200});                                          \
    }

#define CHANGE(id, fn)                                                                             \
    void op_##id(struct api *api, struct op_call *c)                                               \
    {                                                                                              \
        ask(api, c, fn, &(struct bot_op){.status = 200, .changes = true});                         \
    }

ASK(BOT_LIST, bots_list)
CHANGE(BOT_IMPORT, bots_import)
ASK(BOT_SHOW, bots_show)
CHANGE(BOT_PATCH, bots_patch)
CHANGE(BOT_DELETE, bots_delete)
ASK(MEMORY_LIST, bots_memory_list)
ASK(MEMORY_CLEAR, bots_memory_clear)
ASK(MEMORY_GET, bots_memory_get)
ASK(MEMORY_SET, bots_memory_set)
ASK(MEMORY_REMOVE, bots_memory_remove)
ASK(HISTORY_LIST, bots_history_list)
ASK(HISTORY_SHOW, bots_history_show)

void op_BOT_CREATE(struct api *api, struct op_call *c)
{
    ask(api, c, bots_create,
        &(struct bot_op){.status = 201, .location = "/bots/", .changes = true});
}

static void start_run(struct api *api, struct op_call *c)
{
    ask(api, c, bots_run, &(struct bot_op){.status = 201, .location = "/runs/"});
}

void op_RUN_START(struct api *api, struct op_call *c)
{
    api__decide(api, c, "bot", start_run);
}

ASK(RUN_LIST, bots_run_list)
ASK(RUN_SHOW, bots_run_show)
ASK(RUN_DIFF, bots_run_diff)
ASK(RUN_STOP, bots_run_stop)
ASK(RUN_INPUT, bots_run_input)
ASK(RUN_APPLY, bots_run_apply)
ASK(RUN_MERGE, bots_run_merge)
ASK(RUN_DISCARD, bots_run_discard)
ASK(RUN_DELETE, bots_run_delete)
ASK(WORKTREE_LIST, bots_worktree_list)
ASK(WORKTREE_CREATE, bots_worktree_create)
ASK(WORKTREE_REMOVE, bots_worktree_remove)
ASK(WORKTREE_CLEAN, bots_worktree_clean)
ASK(SKILL_LIST, bots_skill_list)
ASK(SKILL_SHOW, bots_skill_show)
ASK(SKILL_SAVE, bots_skill_save)
ASK(SKILL_REMOVE, bots_skill_remove)
