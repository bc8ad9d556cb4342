#pragma once

#include "bot/config.h"
#include "bot/history.h"
#include "bot/memory.h"
#include "bot/skillset.h"

// What a bot is told at the beginning of an iteration: a pure function of plain data.
//
//     instructions · ## Status · ## Available Skills · ## Memory · ## User Input · ### Recent History ·
//     ## Instructions · ## Skills System
//
// Sections without content are left out.

enum { BOT_PROMPT_BYTES = 4 << 20, BOT_RECENT = 5, BOT_RECENT_CHARS = 200 };

struct bot_prompt {
    const char *instructions;
    const char *project; // the workspace's slug
    uint64_t session;    // its number
    const char *branch;  // NULL: no worktree
    const char *base;    // what the branch began from
    const struct skillset_item *skills;
    size_t n_skills;
    const char *skills_dir;            // where `skill_save` stores them
    const struct memory_entry *memory; // by key
    size_t n_memory;
    struct str input;                 // empty: nothing was said
    const struct history_row *recent; // the newest first; the oldest is written first
    size_t n_recent;
    const char *stop_phrase; // NULL: none
};

/// Append the prompt to `out`, whose maximum is the limit (see buf_ok()). On any thread.
void bot_prompt_write(struct buf *out, const struct bot_prompt *p);

/// The same as instructions of a conversation with a bot (`chat --bot`): without what only a run has, the
/// number, the branch, the input and the tool that ends it.
void bot_prompt_write_chat(struct buf *out, const struct bot_prompt *p);
