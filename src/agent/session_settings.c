// A session's settings: what it begins with, what requests ask for, what metadata.json kept of them.
//
// Each setting is a row of `takes`: its name and who takes it. What belongs to providers is taken out of
// the client's environment (`variables`), tools get the rest (`environment`).

#include <math.h>
#include <sys/stat.h>

#include "agent/agent_int.h"
#include "base/path.h"

static const char *const permissions[] = {[PERMISSION_DENY] = "deny",
                                          [PERMISSION_PLAN] = "plan",
                                          [PERMISSION_ASK] = "ask",
                                          [PERMISSION_EDITS] = "edits",
                                          [PERMISSION_AUTO] = "auto"};

const char *agent__session_permission_name(enum session_permission permission)
{
    return permissions[permission];
}

void agent__session_set(char **place, struct str value)
{
    free(*place);
    *place = value.n != 0 ? str_dup(value) : NULL;
}

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        explicit_bzero(list[i], strlen(list[i]));
        free(list[i]);
    }
    free(list);
}

#define clear_names(v)                                                                             \
    do {                                                                                           \
        vec_foreach (clear_it, v) {                                                                \
            free(*clear_it);                                                                       \
        }                                                                                          \
        (v)->n = 0;                                                                                \
    } while (0)

// ---- life ---------------------------------------------------------------------------------------

struct session *agent__session_new(struct agent *a, struct str id)
{
    struct session *s = xcalloc(1, sizeof *s);
    s->agent = a;
    s->id = str_dup(id);
    s->notes_end = &s->notes;
    s->all_plugins = true;
    arena_init(&s->role_arena);
    s->role.dir = STR("sessions");
    s->started_at = loop_wall(a->o.loop);
    s->usage = (struct provider_usage){0};
    s->sandbox = BOX_FULL_ACCESS;
    s->grants = grants_new();
    agent__session_default(s, a->o.config, 0);
    return s;
}

static enum session_permission permission_of(const char *name)
{
    enum session_permission p = PERMISSION_DENY;
    for (size_t i = 0; i < ARRAY_LEN(permissions); i++) {
        if (strcmp(name, permissions[i]) == 0) {
            p = (enum session_permission)i;
        }
    }
    return p;
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
        s->permission = permission_of(config_str(c, "session.permission"));
    }
}

void agent__session_free(struct session *s)
{
    agent__session_cool(s);
    char *texts[] = {s->id,     s->title,          s->working_dir,      s->closing_summary,
                     s->action, s->want_provider,  s->want_model,       s->provider,
                     s->model,  s->prompt_summary, s->response_summary, s->damage};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        free(texts[i]);
    }
    clear_names(&s->plugins);
    clear_names(&s->disabled_tools);
    clear_names(&s->writable);
    vec_fini(&s->plugins);
    vec_fini(&s->disabled_tools);
    vec_fini(&s->writable);
    grants_unref(s->grants);
    free_list(s->environment);
    free_list(s->variables);
    if (s->chosen) {
        provider_choice_fini(&s->choice);
    }
    vec_foreach (m, &s->queue) {
        free(m->text);
    }
    vec_fini(&s->queue);
    vec_fini(&s->enders);
    vec_fini(&s->entrants);
    free(s->real_dir);
    arena_fini(&s->role_arena);
    vec_fini(&s->waiters);
    free(s);
}

// ---- what is asked for --------------------------------------------------------------------------

/// Copy an array of names into `out`; false when it is not one.
static bool read_names(const struct json *v, char ***out, size_t *n)
{
    vec(char *) names = {0};
    bool fits = v->type == JSON_ARR;
    json_foreach_item (it, v) {
        fits = fits && it->type == JSON_STR;
        vec_push(&names, str_dup(json_str(it, "")));
    }
    if (!fits) {
        clear_names(&names);
        vec_fini(&names);
        return false;
    }
    *out = names.p;
    *n = names.n;
    return true;
}

static bool take_plugins(struct session *s, const struct json *v, struct agent_no *no)
{
    json_foreach_item (it, v) {
        struct str name = json_str(it, "");
        json_foreach_item (other, v) {
            if (other < it && str_eq(json_str(other, ""), name)) {
                agent__no(no, PROBLEM_INVALID_BODY, NULL, "plugin '%.*s' is listed twice",
                          (int)MIN(name.n, (size_t)100), name.p);
                return false;
            }
        }
    }
    char **names;
    size_t n;
    if (!read_names(v, &names, &n)) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL, "'plugins' must be a list of names");
        return false;
    }
    clear_names(&s->plugins);
    vec_fini(&s->plugins);
    s->plugins.p = names;
    s->plugins.n = s->plugins.cap = n;
    s->all_plugins = false;
    return true;
}

bool agent__session_knows_plugins(const struct session *s, struct agent_no *no)
{
    const struct agent_host *h = &s->agent->o.host;
    vec_foreach (name, &s->plugins) {
        if (!h->known(h->arg, str_of(*name))) {
            agent__no(no, PROBLEM_INVALID_BODY, "`afloat plugins` lists them",
                      "there is no plugin '%.100s'", *name);
            return false;
        }
    }
    return true;
}

static bool take_disabled(struct session *s, const struct json *v, struct agent_no *no)
{
    char **names;
    size_t n;
    if (!read_names(v, &names, &n)) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL, "'disabled_tools' must be a list of names");
        return false;
    }
    clear_names(&s->disabled_tools);
    vec_fini(&s->disabled_tools);
    s->disabled_tools.p = names;
    s->disabled_tools.n = s->disabled_tools.cap = n;
    return true;
}

/// The real path of a directory: links count now and never again. NULL when it is none; caller frees.
static char *real_directory(struct str asked)
{
    struct stat st;
    char *path = str_dup(asked);
    bool fits = path[0] == '/' && strlen(path) == asked.n && stat(path, &st) == 0;
    char *real = fits && S_ISDIR(st.st_mode) ? realpath(path, NULL) : NULL;
    free(path);
    return real;
}

static bool take_writable(struct session *s, const struct json *v, struct agent_no *no)
{
    vec(char *) dirs = {0};
    bool fits = v->type == JSON_ARR;
    if (!fits) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL, "'writable' must be a list of directories");
    }
    json_foreach_item (it, v) {
        struct str asked = json_str(it, "");
        char *dir = fits ? real_directory(asked) : NULL;
        if (fits && dir == NULL) {
            agent__no(no, PROBLEM_INVALID_BODY, NULL,
                      "'writable' must be directories that exist, with their absolute paths: "
                      "'%.*s' is not",
                      (int)MIN(asked.n, (size_t)150), asked.p);
            fits = false;
        } else if (dir != NULL) {
            vec_push(&dirs, dir);
        }
    }
    if (!fits) {
        clear_names(&dirs);
        vec_fini(&dirs);
        return false;
    }
    clear_names(&s->writable);
    vec_fini(&s->writable);
    s->writable.p = dirs.p;
    s->writable.n = s->writable.cap = dirs.n;
    return true;
}

static bool take_working_dir(struct session *s, const struct json *v, struct agent_no *no)
{
    struct str asked = json_str(v, "");
    char *dir = real_directory(asked);
    if (dir == NULL) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL,
                  "'working_dir' must be a directory that exists, "
                  "with its absolute path: '%.*s' is not",
                  (int)MIN(asked.n, (size_t)150), asked.p);
        return false;
    }
    free(s->working_dir);
    s->working_dir = dir;
    return true;
}

static bool take_sandbox(struct session *s, const struct json *v, struct agent_no *no)
{
    if (!box_mode_parse(json_str(v, ""), &s->sandbox)) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL,
                  "'sandbox' must be read-only, workspace-write or danger-full-access");
        return false;
    }
    return true;
}

static bool take_permission(struct session *s, const struct json *v, struct agent_no *no)
{
    for (size_t i = 0; i < ARRAY_LEN(permissions); i++) {
        if (str_eqz(json_str(v, ""), permissions[i])) {
            s->permission = (enum session_permission)i;
            return true;
        }
    }
    agent__no(no, PROBLEM_INVALID_BODY, NULL,
              "'permission' must be ask, edits, plan, auto or deny");
    return false;
}

static bool take_engine(struct session *s, const struct json *v, struct agent_no *no)
{
    (void)s;
    if (!str_eqz(json_str(v, ""), "native")) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL, "the only engine is 'native'");
        return false;
    }
    return true;
}

static bool take_network(struct session *s, const struct json *v, struct agent_no *no)
{
    (void)no;
    s->network = json_bool(v, false);
    return true;
}

static bool take_max_steps(struct session *s, const struct json *v, struct agent_no *no)
{
    s->max_steps = json_int(v, 0);
    if (s->max_steps < 1) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL, "'max_steps' must be 1 or more");
    }
    return s->max_steps >= 1;
}

static bool take_max_cost(struct session *s, const struct json *v, struct agent_no *no)
{
    s->max_cost = json_double(v, 0);
    if (!(s->max_cost > 0)) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL, "'max_cost' must be more than 0 USD");
    }
    return s->max_cost > 0;
}

static bool take_keep_requests(struct session *s, const struct json *v, struct agent_no *no)
{
    (void)no;
    s->keep_requests = json_bool(v, false);
    return true;
}

static bool take_title(struct session *s, const struct json *v, struct agent_no *no)
{
    (void)no;
    agent__session_set(&s->title, json_str(v, ""));
    return true;
}

static bool take_provider(struct session *s, const struct json *v, struct agent_no *no)
{
    (void)no;
    agent__session_set(&s->want_provider, json_str(v, ""));
    return true;
}

static bool take_model(struct session *s, const struct json *v, struct agent_no *no)
{
    (void)no;
    agent__session_set(&s->want_model, json_str(v, ""));
    return true;
}

static char **copy_list(const char *const *list)
{
    size_t n = 0;
    while (list[n] != NULL) {
        n++;
    }
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

/// What belongs to providers is taken out of the environment, what tools may not have is dropped.
static bool take_env(struct session *s, const struct json *v, struct agent_no *no)
{
    const struct config *c = s->agent->o.config;
    struct arena a;
    arena_init(&a);
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
    } else {
        agent__no(no, PROBLEM_INVALID_BODY, NULL, "'env' must be an object of names and texts");
    }
    arena_fini(&a);
    return fits;
}

static const struct {
    const char *name;
    bool (*take)(struct session *s, const struct json *v, struct agent_no *no);
} takes[] = {{"plugins", take_plugins},
             {"disabled_tools", take_disabled},
             {"writable", take_writable},
             {"working_dir", take_working_dir},
             {"env", take_env},
             {"provider", take_provider},
             {"model", take_model},
             {"engine", take_engine},
             {"sandbox", take_sandbox},
             {"network", take_network},
             {"permission", take_permission},
             {"keep_requests", take_keep_requests},
             {"max_steps", take_max_steps},
             {"max_cost", take_max_cost},
             {"title", take_title}};

bool agent__session_take(struct session *s, const struct json *params, struct agent_no *no)
{
    for (size_t i = 0; i < ARRAY_LEN(takes); i++) {
        const struct json *v = json_get(params, takes[i].name);
        if (v != NULL && v->type != JSON_NULL && !takes[i].take(s, v, no)) {
            return false;
        }
    }
    return true;
}

/// What of the client's environment was kept is there again; providers have nothing.
static void read_environment(struct session *s, const struct json *env)
{
    vec(char *) list = {0};
    json_foreach_member (m, env) {
        if (is_variable(m)) {
            vec_push(&list, xasprintf(STR_FMT "=" STR_FMT, STR_ARG(m->key), STR_ARG(m->value.s)));
        }
    }
    vec_push(&list, NULL);
    free_list(s->environment);
    s->environment = list.p;
}

void agent__session_take_stored(struct session *s, const struct json *meta)
{
    static const char *const plain[] = {"title",    "disabled_tools", "sandbox",
                                        "network",  "keep_requests",  "max_steps",
                                        "max_cost", "permission"};
    struct agent_no no;
    for (size_t i = 0; i < ARRAY_LEN(takes); i++) {
        for (size_t k = 0; k < ARRAY_LEN(plain); k++) {
            const struct json *v = json_get(meta, takes[i].name);
            if (strcmp(plain[k], takes[i].name) == 0 && v != NULL && v->type != JSON_NULL) {
                (void)takes[i].take(s, v, &no);
            }
        }
    }
    const struct json *plugins = json_get(meta, "plugins"), *writable = json_get(meta, "writable");
    size_t n = 0;
    if (plugins != NULL && plugins->type == JSON_ARR) {
        s->all_plugins = !read_names(plugins, &s->plugins.p, &n);
        s->plugins.n = s->plugins.cap = n;
    }
    if (writable != NULL && read_names(writable, &s->writable.p, &n)) { // real paths, as they were
        s->writable.n = s->writable.cap = n;
    }
    read_environment(s, json_get(meta, "env"));
}

bool agent_session_set_env(struct session *s, const struct json *env, struct agent_no *no)
{
    return take_env(s, env, no);
}

bool agent__session_choose(struct session *s, struct agent_no *no)
{
    struct provider_wish wish = {.provider = s->want_provider,
                                 .model = s->want_model,
                                 .env = (const char *const *)s->variables,
                                 .cwd = s->working_dir,
                                 .home = s->agent->o.home};
    struct provider_choice choice;
    struct err e = {0};
    if (providers_resolve(&choice, agent__session_config(s), &wish, &e) < 0) {
        agent__no(no, PROBLEM_INVALID_BODY, "`afloat models` shows what there is", "%s", e.msg);
        return false;
    }
    if (s->max_cost > 0 && (isnan(choice.prices.input) || isnan(choice.prices.output))) {
        agent__no(no, PROBLEM_INVALID_BODY,
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

static void copy_texts(char ***out, size_t *n, size_t *cap, char *const *from, size_t n_from)
{
    *out = n_from != 0 ? xcalloc(n_from, sizeof **out) : NULL;
    for (size_t i = 0; i < n_from; i++) {
        (*out)[i] = xstrdup(from[i]);
    }
    *n = *cap = n_from;
}

void agent__session_copy_settings(struct session *to, const struct session *from)
{
    agent__session_copy_role(to, from);
    agent__session_set(&to->title, str_of(from->title));
    agent__session_set(&to->working_dir, str_of(from->working_dir));
    agent__session_set(&to->want_provider, str_of(from->want_provider));
    agent__session_set(&to->want_model, str_of(from->want_model));
    to->all_plugins = from->all_plugins;
    copy_texts(&to->plugins.p, &to->plugins.n, &to->plugins.cap, from->plugins.p, from->plugins.n);
    copy_texts(&to->disabled_tools.p, &to->disabled_tools.n, &to->disabled_tools.cap,
               from->disabled_tools.p, from->disabled_tools.n);
    copy_texts(&to->writable.p, &to->writable.n, &to->writable.cap, from->writable.p,
               from->writable.n);
    to->sandbox = from->sandbox;
    to->network = from->network;
    to->permission = from->permission;
    to->keep_requests = from->keep_requests;
    to->max_steps = from->max_steps;
    to->max_cost = from->max_cost;
    if (from->environment != NULL) {
        to->environment = copy_list((const char *const *)from->environment);
    }
    if (from->variables != NULL) {
        to->variables = copy_list((const char *const *)from->variables);
    }
}
