#pragma once

#include "api/api.h"
#include "api/op.h"
#include "base/map.h"
#include "base/vec.h"
#include "proto/events.h"

// What the handlers of api/ share.

struct agent_no;
struct api_files;
struct asking;
struct ui_command;
struct validation;

struct api {
    struct api_opts o;
    uint64_t started_ms;                  // monotonic
    struct api_shells *shells;            // what shells told; NULL while there was none
    struct gen_engine *engine;            // NULL while there is none
    struct plugins *plugins;              // the same
    struct improvements *improvements;    // the same
    struct agent *agent;                  // the same
    struct providers *providers;          // the same
    struct bots *bots;                    // the same
    struct fleet *fleet;                  // the same
    struct mcp *mcp;                      // the same
    struct terms *terms;                  // the same
    struct lane *files;                   // reads and writes plugins' files
    struct api_files *dirs;               // that pages show, see files.c; NULL while none did
    vec(struct asking *) asking;          // providers, see provider.c
    vec(struct validation *) validations; // under way, see validate.c
    struct map fronts;                    // what browsers said of plugins' web sides, see front.c
    const struct json *ui_state;          // of the open page, in `ui_arena`; NULL: it told nothing
    struct arena ui_arena;
    vec(struct ui_command *) ui_commands; // that a page is to carry out, see ui.c
    uint64_t last_ui_command;
};

/// Answer with a refusal of the agent or of bots.
void api__refuse(struct op_call *c, const struct agent_no *no);
/// Where events begin: `after`, else Last-Event-ID, else `fallback`. False, and answered, when `after` is negative.
bool api__read_after(struct op_call *c, uint64_t fallback, uint64_t *after);
/// End the processes of validate.c; each is answered with a failure.
void api__end_validations(struct api *api);
void api__free_shells(struct api_shells *t); // NULL is allowed
void api__front_free(struct api *api);
/// Answer and return false when `path` is not absolute, or the hub is stopping.
bool api__require_path(struct api *api, struct op_call *c, struct str path);
/// For what a page wants of the disk; opened with the first call.
struct lane *api__page_lane(struct api *api);
/// What was asked of the directory `dir` is known: answer with it, or, unless `error` is 0, with that errno. Frees both.
void api__answer_list(struct op_call *c, char *dir, int error, struct buf *answer);
void api__files_stop(struct api *api); // no directory is watched any more
void api__files_free(struct api *api);
void api__ui_stop(struct api *api); // what waits for a page is answered
void api__ui_free(struct api *api);
void api__ui_give(struct api *api, struct agent *agent); // for the tools ui_state and ui_command
/// End the requests of provider.c in the same way.
void api__end_asking(struct api *api);
