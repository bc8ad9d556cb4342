// The variables that the tools of a session get, and what other parts may ask about a session's environment.
//
// Tools get the client's environment, with that of the project on top if there is one (agent_host.environ). A
// variable that [tool_env] drop names is kept from them, wherever it comes from.

#include "agent/agent_int.h"

const char *const *agent__session_filter(const struct session *s, const char *const *vars,
                                         struct arena *a)
{
    const struct config *c = agent__session_config(s);
    return tool_environment(vars, config_strings(c, "tool_env.drop"), a);
}

const char *agent_session_dir(const struct session *s)
{
    return s->working_dir;
}

const char *const *agent_session_environ(const struct session *s)
{
    static const char *const nothing[] = {NULL};
    return s->environment != NULL ? (const char *const *)s->environment : nothing;
}

bool agent_drops_variable(const struct agent *a, struct str id, struct str name)
{
    const struct session *s = map_get(&a->sessions, id);
    return s != NULL && tool_drops(name, config_strings(agent__session_config(s), "tool_env.drop"));
}

void agent_tell(struct agent *a, struct str id, enum event_id event,
                void (*write)(struct jw *w, void *arg), void *arg)
{
    struct session *s = map_get(&a->sessions, id);
    struct note n;
    if (s == NULL || s->state == SESSION_ENDED || s->ending || a->stopping) {
        return;
    }
    write(note__begin(&n, s, NULL, event), arg);
    note__end(&n, STORE_WRITTEN, NULL, NULL);
}

void agent_vacate(struct agent *a, struct str id)
{
    struct session *s = map_get(&a->sessions, id);
    if (s != NULL && s->turn == NULL && !s->entering && s->arriving == 0) {
        agent__session_leave(s);
        agent__engine_close(s);
        a->o.host.vacated(a->o.host.arg, s);
    }
}
