// A session's settings: the defaults, what requests ask for, and what metadata.json keeps.
//
// Each setting is a row of `takes`: its name and the function that takes it. Variables of the client's environment
// that belong to providers go to `variables`; tools get the rest (`environment`).

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "agent/agent_int.h"
#include "base/redact.h"
#include "base/utf8.h"
#include "config/secrets.h"
#include "proto/engines.h"

static const char *const permissions[] = {[PERMISSION_DENY] = "deny",
                                          [PERMISSION_PLAN] = "plan",
                                          [PERMISSION_ASK] = "ask",
                                          [PERMISSION_EDITS] = "edits",
                                          [PERMISSION_AUTO] = "auto"};

const char *agent__session_permission_name(enum session_permission permission)
{
    assert(permission < ARRAY_LEN(permissions));
    return permissions[permission];
}

void agent__session_set(char **place, struct str value)
{
    free(*place);
    *place = value.n != 0 ? str_dup(value) : NULL;
}

void agent__session_set_summary(char **place, struct str text)
{
    struct buf clean = {.max = SIZE_MAX};
    // enough to find a secret that reaches beyond the summary
    text.n = MIN(text.n, (size_t)SECRET_VALUE_MAX + SUMMARY_BYTES);
    redact_text(&clean, text);
    agent__session_set(
        place, (struct str){buf_z(&clean), utf8_cut(buf_z(&clean), clean.n, SUMMARY_BYTES)});
    buf_fini(&clean);
}

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        explicit_bzero(list[i], strlen(list[i]));
        free(list[i]);
    }
    free(list);
}

static void names_set(struct session_names *to, char *const *names, size_t n)
{
    struct session_names list = {0};
    for (size_t i = 0; i < n; i++) {
        vec_push(&list, xstrdup(names[i]));
    }
    vec_fini_each(to, free);
    *to = list;
}

// ---- life ---------------------------------------------------------------------------------------

struct session *agent__session_new(struct agent *a, struct str id)
{
    struct session *s = xcalloc(1, sizeof *s);
    s->agent = a;
    s->id = str_dup(id);
    s->all_plugins = true;
    s->role.dir = STR("sessions");
    s->started_at = loop_wall(a->o.hub->loop);
    s->sandbox = BOX_FULL_ACCESS;
    s->grants = grants_new();
    agent__session_default(s, a->o.hub->config->now, 0);
    return s;
}

void agent__session_default(struct session *s, const struct config *c, unsigned asked)
{
    enum box_mode mode = BOX_READ_ONLY;
    if ((asked & SESSION_ASKED_SANDBOX) == 0) {
        (void)box_mode_parse(str_of(config_str(c, "sandbox.mode")), &mode);
        s->sandbox = MIN(s->sandbox, mode);
    }
    if ((asked & SESSION_ASKED_NETWORK) == 0) {
        s->network = config_bool(c, "sandbox.network");
    }
    if ((asked & SESSION_ASKED_PERMISSION) == 0) {
        const char *name = config_str(c, "session.permission");
        ptrdiff_t i = str_lookup(str_of(name), permissions, ARRAY_LEN(permissions));
        s->permission = i >= 0 ? (enum session_permission)i : PERMISSION_DENY;
    }
}

void agent__session_hold(struct session *s)
{
    const struct config *c = s->agent->o.hub->config->now;
    const char *mode = config_allowed(c, "sandbox.mode", box_mode_name(s->sandbox));
    const char *permission = config_allowed(c, "session.permission", permissions[s->permission]);
    (void)box_mode_parse(str_of(mode), &s->sandbox);
    s->permission = (enum session_permission)str_lookup(str_of(permission), permissions,
                                                        ARRAY_LEN(permissions));
    s->network = s->network &&
                 (!config_is_policy(c, "sandbox.network") || config_bool(c, "sandbox.network"));
    if (config_is_policy(c, "sandbox.writable")) {
        names_set(&s->writable, NULL, 0);
    }
}

void agent__session_free(struct session *s)
{
    assert(s->turn == NULL && !s->entering && s->rewinding == 0 && s->engine_processes == 0);
    agent__session_cool(s);
    char *texts[] = {s->id,     s->title,          s->working_dir,      s->closing_summary,
                     s->action, s->want_provider,  s->want_model,       s->provider,
                     s->model,  s->prompt_summary, s->response_summary, s->damage,
                     s->parent, s->engine,         s->engine_thread,    s->engine_dir,
                     s->memory};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        free(texts[i]);
    }
    vec_fini_each(&s->plugins, free);
    vec_fini_each(&s->disabled_tools, free);
    vec_fini_each(&s->tools, free);
    vec_fini_each(&s->writable, free);
    grants_unref(s->grants);
    vec_fini_each(&s->instructions, free);
    rewind_session_close(s->rewind);
    free_list(s->environment);
    free_list(s->variables);
    if (s->chosen) {
        provider_choice_fini(&s->choice);
    }
    vec_foreach (m, &s->queue) {
        free(m->text);
        free(m->images);
    }
    vec_fini(&s->queue);
    vec_fini(&s->enders);
    vec_fini(&s->entrants);
    vec_fini(&s->behind);
    free(s->real_dir);
    arena_fini(&s->role_arena);
    vec_fini(&s->waiters);
    free(s);
}

// ---- what is asked for --------------------------------------------------------------------------

/// Set `out` to the names of the array `v`. False, and nothing changes, when it is no array of texts.
static bool names_read(struct session_names *out, const struct json *v)
{
    struct session_names list = {0};
    bool fits = v->type == JSON_ARR;
    json_foreach_item (it, v) {
        fits = fits && it->type == JSON_STR;
        vec_push(&list, str_dup(json_str(it, "")));
    }
    struct session_names *drop = fits ? out : &list;
    vec_fini_each(drop, free);
    if (fits) {
        *out = list;
    }
    return fits;
}

#define REFUSE(no, ...) agent_no_set(no, PROBLEM_INVALID_BODY, NULL, __VA_ARGS__)

static bool take_plugins(struct session *s, const struct json *v, struct agent_no *no)
{
    json_foreach_item (it, v) {
        struct str name = json_str(it, "");
        json_foreach_item (other, v) {
            if (other < it && str_eq(json_str(other, ""), name)) {
                return REFUSE(no, "plugin '%.*s' is listed twice", (int)MIN(name.n, (size_t)100),
                              name.p);
            }
        }
    }
    if (!names_read(&s->plugins, v)) {
        return REFUSE(no, "'plugins' must be a list of names");
    }
    s->all_plugins = false;
    return true;
}

bool agent__session_knows_plugins(const struct session *s, struct agent_no *no)
{
    const struct agent_host *h = &s->agent->o.host;
    vec_foreach (name, &s->plugins) {
        if (!h->known(h->plugins, str_of(*name))) {
            return agent_no_set(no, PROBLEM_INVALID_BODY, "`afloat plugins` lists them",
                                "there is no plugin '%.100s'", *name);
        }
    }
    return true;
}

static bool take_disabled(struct session *s, const struct json *v, struct agent_no *no)
{
    return names_read(&s->disabled_tools, v) ||
           REFUSE(no, "'disabled_tools' must be a list of names");
}

static bool take_writable(struct session *s, const struct json *v, struct agent_no *no)
{
    return names_read(&s->writable, v) || REFUSE(no, "'writable' must be a list of directories");
}

static bool take_title(struct session *s, const struct json *v, struct agent_no *no)
{
    struct buf clean = {.max = SIZE_MAX};
    (void)no;
    redact_text(&clean, json_str(v, ""));
    agent__session_set(&s->title, buf_str(&clean));
    buf_fini(&clean);
    return true;
}

static bool take_sandbox(struct session *s, const struct json *v, struct agent_no *no)
{
    return box_mode_parse(json_str(v, ""), &s->sandbox) ||
           REFUSE(no, "'sandbox' must be read-only, workspace-write or danger-full-access");
}

static bool take_permission(struct session *s, const struct json *v, struct agent_no *no)
{
    ptrdiff_t i = str_lookup(json_str(v, ""), permissions, ARRAY_LEN(permissions));
    if (i < 0) {
        return REFUSE(no, "'permission' must be ask, edits, plan, auto or deny");
    }
    s->permission = (enum session_permission)i;
    return true;
}

static bool take_engine(struct session *s, const struct json *v, struct agent_no *no)
{
    struct str name = json_str(v, "");
    (void)no; // agent__engine_look() checks it, when the environment is known
    name = str_eqz(name, ENGINE_NATIVE) ? STR("") : name;
    if (!str_eq(str_of(s->engine), name)) {
        agent__engine_forget(s);
        agent__session_set(&s->engine, name);
    }
    return true;
}

static bool take_max_steps(struct session *s, const struct json *v, struct agent_no *no)
{
    s->max_steps = json_int(v, 0);
    return s->max_steps >= 1 || REFUSE(no, "'max_steps' must be 1 or more");
}

static bool take_max_cost(struct session *s, const struct json *v, struct agent_no *no)
{
    s->max_cost = json_double(v, 0);
    return s->max_cost > 0 || REFUSE(no, "'max_cost' must be more than 0 USD");
}

static char **copy_list(const char *const *list)
{
    size_t n = str_count(list);
    char **out = xcalloc(n + 1, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        out[i] = xstrdup(list[i]);
    }
    return out;
}

static bool is_variable(const struct json_member *m)
{
    return m->value.type == JSON_STR && m->key.n != 0 && str_index(m->key, '=') < 0 &&
           str_index(m->key, '\0') < 0 && str_index(m->value.s, '\0') < 0;
}

/// Split the client's environment: providers get their variables, tools the rest without what [tool_env] drops.
static bool take_env(struct session *s, const struct json *v, struct agent_no *no)
{
    const struct config *c = s->agent->o.hub->config->now;
    struct arena a = {0};
    const char **ours = arena_calloc(&a, v->n + 1, sizeof *ours);
    const char **theirs = arena_calloc(&a, v->n + 1, sizeof *theirs);
    size_t n_ours = 0, n_theirs = 0;
    bool fits = true;
    json_foreach_member (m, v) {
        fits = fits && is_variable(m);
        const char *text =
            fits ? arena_printf(&a, STR_FMT "=" STR_FMT, STR_ARG(m->key), STR_ARG(m->value.s))
                 : NULL;
        if (fits && providers_owns_variable(c, m->key)) {
            ours[n_ours++] = text;
        } else if (fits) {
            theirs[n_theirs++] = text;
        }
    }
    if (fits) {
        free_list(s->environment);
        free_list(s->variables);
        s->variables = copy_list(ours);
        s->environment = copy_list(agent__session_filter(s, theirs, &a));
    }
    arena_fini(&a);
    return fits || REFUSE(no, "'env' must be an object of names and texts");
}

bool agent_session_set_env(struct session *s, const struct json *v, struct agent_no *no)
{
    bool taken = take_env(s, v, no);
    if (taken) {
        s->agent->o.host.changed(s->agent->o.host.arg,
                                 s); // commands get the variables from the host
    }
    return taken;
}

/// A setting: taken by `take`, or a text or a bool at that offset of the session. `stored`: metadata.json has it in
/// the same form.
static const struct {
    const char *name;
    bool stored;
    bool (*take)(struct session *s, const struct json *v, struct agent_no *no);
    size_t text, flag;
} takes[] = {{"plugins", .take = take_plugins},
             {"disabled_tools", true, .take = take_disabled},
             {"writable", .take = take_writable},
             {"working_dir", .text = offsetof(struct session, working_dir)},
             {"env", .take = take_env},
             {"provider", .text = offsetof(struct session, want_provider)},
             {"model", .text = offsetof(struct session, want_model)},
             {"engine", true, .take = take_engine},
             {"sandbox", true, .take = take_sandbox},
             {"network", true, .flag = offsetof(struct session, network)},
             {"permission", true, .take = take_permission},
             {"keep_requests", true, .flag = offsetof(struct session, keep_requests)},
             {"max_steps", true, .take = take_max_steps},
             {"max_cost", true, .take = take_max_cost},
             {"title", true, .take = take_title}};

static bool take_setting(struct session *s, const struct json *params, size_t i,
                         struct agent_no *no)
{
    const struct json *v = json_get(params, takes[i].name);
    if (v == NULL || v->type == JSON_NULL) {
        return true;
    }
    if (takes[i].take != NULL) {
        return takes[i].take(s, v, no);
    }
    if (takes[i].text != 0) {
        agent__session_set((char **)(void *)((char *)s + takes[i].text), json_str(v, ""));
    } else {
        *(bool *)((char *)s + takes[i].flag) = json_bool(v, false);
    }
    return true;
}

bool agent__session_take(struct session *s, const struct json *params, struct agent_no *no)
{
    for (size_t i = 0; i < ARRAY_LEN(takes); i++) {
        if (!take_setting(s, params, i, no)) {
            return false;
        }
    }
    agent__session_hold(s);
    return true;
}

void agent__session_take_stored(struct session *s, const struct json *meta)
{
    const struct json *plugins = json_get(meta, "plugins"), *writable = json_get(meta, "writable");
    const struct json *tools = json_get(meta, "tools");
    struct agent_no no;
    for (size_t i = 0; i < ARRAY_LEN(takes); i++) {
        if (takes[i].stored) {
            (void)take_setting(s, meta, i, &no);
        }
    }
    if (plugins != NULL && plugins->type == JSON_ARR) {
        s->all_plugins = !names_read(&s->plugins, plugins);
    }
    s->some_tools = tools != NULL && names_read(&s->tools, tools);
    if (writable != NULL) {
        (void)names_read(&s->writable, writable); // real paths, as they were
    }
    // the part of the client's environment that was kept; none of it is for providers
    vec(char *) list = {0};
    json_foreach_member (m, json_get(meta, "env")) {
        if (is_variable(m)) {
            vec_push(&list, xasprintf(STR_FMT "=" STR_FMT, STR_ARG(m->key), STR_ARG(m->value.s)));
        }
    }
    vec_push(&list, NULL);
    free_list(s->environment);
    s->environment = list.p;
}

bool agent__session_choose(struct session *s, struct agent_no *no)
{
    struct provider_wish wish = {.provider = s->want_provider,
                                 .model = s->want_model,
                                 .env = (const char *const *)s->variables,
                                 .cwd = s->working_dir,
                                 .home = s->agent->o.hub->home,
                                 .service = s->agent->o.providers};
    struct provider_choice choice;
    struct err e = {0};
    int rc = providers_resolve(&choice, agent__session_config(s), &wish, &e);
    if (rc < 0) {
        const char *hint = rc == ERR_NOT_FOUND ? "`afloat models` lists what there is" : NULL;
        return agent_no_set(no, PROBLEM_INVALID_BODY, hint, "%s", e.msg);
    }
    if (s->max_cost > 0 && (isnan(choice.prices.input) || isnan(choice.prices.output))) {
        agent_no_set(no, PROBLEM_INVALID_BODY,
                     "set `input` and `output` there, in USD per million tokens",
                     "'max_cost' needs the price of the model: config.toml has no [prices.\"%s\"]",
                     choice.model);
        provider_choice_fini(&choice);
        return false;
    }
    if (s->chosen) {
        provider_choice_fini(&s->choice);
    }
    s->choice = choice;
    s->chosen = true;
    s->fallback = choice.fallback;
    agent__session_set(&s->provider, str_of(choice.provider));
    agent__session_set(&s->model, str_of(choice.model));
    return true;
}

static void copy_variables(char ***to, char *const *from)
{
    free_list(*to);
    *to = from != NULL ? copy_list((const char *const *)from) : NULL;
}

void agent__session_set_settings(struct session *to, const struct session *from)
{
    const struct {
        char **to;
        const char *from;
    } texts[] = {{&to->title, from->title},
                 {&to->working_dir, from->working_dir},
                 {&to->want_provider, from->want_provider},
                 {&to->want_model, from->want_model},
                 {&to->engine, from->engine}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        agent__session_set(texts[i].to, str_of(texts[i].from));
    }
    to->all_plugins = from->all_plugins;
    names_set(&to->plugins, from->plugins.p, from->plugins.n);
    names_set(&to->disabled_tools, from->disabled_tools.p, from->disabled_tools.n);
    to->some_tools = from->some_tools;
    names_set(&to->tools, from->tools.p, from->tools.n);
    names_set(&to->writable, from->writable.p, from->writable.n);
    to->sandbox = from->sandbox;
    to->sandbox_reason = from->sandbox_reason;
    to->network = from->network;
    to->permission = from->permission;
    to->keep_requests = from->keep_requests;
    to->max_steps = from->max_steps;
    to->max_cost = from->max_cost;
    copy_variables(&to->environment, from->environment);
    copy_variables(&to->variables, from->variables);
}
