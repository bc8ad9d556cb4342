// Work in a directory without a session: what its project brings counts there too.

#include "agent/agent_int.h"

struct visit {
    struct agent *agent;
    agent_visit_cb *done;
    void *arg;
};

static void on_entered(void *arg, const char *real_dir)
{
    struct visit v = *(struct visit *)arg;
    free(arg);
    v.done(v.arg, real_dir);
    agent__release(v.agent);
}

bool agent_visit(struct agent *a, const char *dir, agent_visit_cb *done, void *arg)
{
    if (a->stopping) {
        return false;
    }
    struct visit *v = xmalloc(sizeof *v);
    *v = (struct visit){.agent = a, .done = done, .arg = arg};
    agent__hold(a);
    a->o.host.enter(a->o.host.arg, dir, on_entered, v);
    return true;
}

void agent_visit_end(struct agent *a, const char *real_dir)
{
    a->o.host.leave(a->o.host.arg, real_dir);
}

const struct config *agent_config_at(const struct agent *a, const char *dir)
{
    const struct config *c = a->o.host.config(a->o.host.arg, dir);
    return c != NULL ? c : a->o.config->now;
}
