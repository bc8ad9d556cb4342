// Variables of a session's tools, and news of them.
//
// Tools get what the client brought, with the environment of the project on top where there is one; the
// host builds that (agent_host.environ). Wherever a variable comes from, [tool_env] drop keeps it from
// tools.

#include "agent/agent_int.h"

static const char *const *drop_patterns(const struct config *c, struct arena *a)
{
    size_t n;
    const char *const *given = config_strings(c, "tool_env.drop", &n);
    const char **list = arena_calloc(a, n + 1, sizeof *list); // with a NULL at the end
    memcpy(list, given, n * sizeof *list);
    return list;
}

const char *const *agent__session_filter(const struct session *s, const char *const *vars,
                                         struct arena *a)
{
    return tool_environment(vars, drop_patterns(agent__session_config(s), a), a);
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
    struct arena arena;
    arena_init(&arena);
    bool drops = s != NULL && tool_drops(name, drop_patterns(agent__session_config(s), &arena));
    arena_fini(&arena);
    return drops;
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
