// Bots in their place in the hub.

#include "main/bot_glue.h"

#include "bind/bind.h"
#include "bot/bots.h"
#include "main/worktree_lua.h"

struct bot_glue {
    struct bots *bots;
    struct bind *bind;              // NULL: there is none, or it is going
    struct worktree_lua *worktrees; // NULL: the same
    loop_fn *done;
    void *done_arg;
};

static void on_worktree(void *arg, bool created, const char *path, const char *branch,
                        const char *repository)
{
    struct bot_glue *g = arg;
    if (g->bind != NULL) {
        bind_worktree_changed(g->bind, created, path, branch, repository);
    }
}

struct bot_glue *bot_glue_open(const struct bot_glue_opts *o)
{
    struct bot_glue *g = xcalloc(1, sizeof *g);
    struct bots_opts opts = {.loop = o->loop,
                             .home = o->home,
                             .config = o->config,
                             .store = o->store,
                             .events = o->events,
                             .trust = o->trust,
                             .agent = o->agent,
                             .watcher = o->watcher,
                             .worktree = on_worktree,
                             .arg = g};
    g->bind = o->bind;
    g->worktrees = o->bind != NULL ? worktree_lua_open(o->bind, o->loop, o->home) : NULL;
    g->bots = bots_open(&opts);
    return g;
}

struct bots *bot_glue_bots(struct bot_glue *g)
{
    return g->bots;
}

void bot_glue_set_config(struct bot_glue *g, const struct config *c)
{
    bots_set_config(g->bots, c);
}

static void on_stopped(void *arg)
{
    struct bot_glue *g = arg;
    worktree_lua_close(g->worktrees);
    g->bind = NULL;
    g->done(g->done_arg);
}

void bot_glue_stop(struct bot_glue *g, loop_fn *done, void *arg)
{
    g->done = done;
    g->done_arg = arg;
    bots_stop(g->bots, on_stopped, g);
}

void bot_glue_close(struct bot_glue *g, loop_fn *done, void *arg)
{
    bots_close(g->bots, done, arg);
}

void bot_glue_free(struct bot_glue *g)
{
    if (g != NULL) {
        bots_free(g->bots);
        free(g);
    }
}
