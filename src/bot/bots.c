// The service of bots: what is asked of it, and who answers. While it is being built it refuses.

#include "bot/bots.h"

static const struct agent_no not_yet = {.problem = PROBLEM_STOPPING,
                                        .detail = "bots are being built"};

#define REFUSE(fn)                                                                                 \
    void fn(struct bots *b, const struct json *params, agent_text_cb *cb, void *arg)               \
    {                                                                                              \
        (void)b;                                                                                   \
        (void)params;                                                                              \
        cb(arg, STR_NULL, &not_yet);                                                               \
    }
REFUSE(bots_list)
REFUSE(bots_create)
REFUSE(bots_show)
REFUSE(bots_patch)
REFUSE(bots_delete)
REFUSE(bots_import)
REFUSE(bots_memory_list)
REFUSE(bots_memory_get)
REFUSE(bots_memory_set)
REFUSE(bots_memory_remove)
REFUSE(bots_memory_clear)
REFUSE(bots_skill_list)
REFUSE(bots_skill_show)
REFUSE(bots_skill_save)
REFUSE(bots_skill_remove)
REFUSE(bots_history_list)
REFUSE(bots_history_show)
REFUSE(bots_run)
REFUSE(bots_run_list)
REFUSE(bots_run_show)
REFUSE(bots_run_diff)
REFUSE(bots_run_apply)
REFUSE(bots_run_merge)
REFUSE(bots_run_discard)
REFUSE(bots_run_stop)
REFUSE(bots_run_input)
REFUSE(bots_worktree_list)
REFUSE(bots_worktree_clean)

void bots_chat(struct bots *b, const struct json *params, agent_session_cb *cb, void *arg)
{
    (void)b;
    (void)params;
    cb(arg, NULL, &not_yet);
}
