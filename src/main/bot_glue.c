// Bots in their place in the hub.

#include "main/bot_glue.h"

#include "bind/bind.h"
#include "bot/bots.h"

struct bot_glue {
    struct bots *bots;
    struct bind *bind; // NULL: there is none, or it is going
    loop_fn *done;
    void *done_arg;
};

static void on_worktree(void *arg, enum bots_tree what, const char *path, const char *branch,
                        const char *repository)
{
    struct bot_glue *g = arg;
    if (g->bind != NULL && what == BOTS_TREE_FOUND) {
        bind_worktree_known(g->bind, path, branch, repository);
    } else if (g->bind != NULL) {
        bind_worktree_changed(g->bind, what == BOTS_TREE_MADE, path, branch, repository);
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
    g->bots = bots_open(&opts);
    return g;
}

struct bots *bot_glue_bots(struct bot_glue *g)
{
    return g->bots;
}

static void on_stopped(void *arg)
{
    struct bot_glue *g = arg;
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
