// Which provider, which model, which key.
//
//     [policy.model]  >  wish  >  AFLOAT_PROVIDER, AFLOAT_MODEL  >  [model]  >  a built-in one with a key  >  scripted
//
// The environment is the client's, as it came with the session; the hub's own is not used. A key is
// registered as a secret as soon as it is read, so no log line, event or error can show one.
//
// Keys are not stored here: a choice belongs to its session and is freed with it.

#include "agent/providers.h"

#include <assert.h>
#include <math.h>

#include "agent/provider_int.h"
#include "base/log.h"
#include "base/redact.h"
#include "config/secrets.h"
#include "gen/gen.h"
#include "loop/work.h"

static const struct provider_kind kinds[] = {
    {"openai-responses", &wire_responses, &provider_transport_http, "/responses", "/models", false},
    {"openai-chat", &wire_chat, &provider_transport_http, "/chat/completions", "/models", false},
    {"anthropic", &wire_anthropic, &provider_transport_http, "/v1/messages",
     "/v1/models?limit=1000", true},
    {"scripted", &wire_responses, &provider_transport_scripted, NULL, NULL, false},
    {"plugin", &wire_plugin, &provider_transport_plugin, NULL, NULL, false}, // no setting names it
};

static const char *const built_in[] = {"openai", "anthropic"};

static const char *const our_variables[] = {"AFLOAT_PROVIDER", "AFLOAT_MODEL", "AFLOAT_SCENARIO"};

// ---- the service ----------------------------------------------------------------------------

struct providers *providers_open(struct loop *l, struct http_client *client)
{
    struct providers *s = xcalloc(1, sizeof *s);
    s->loop = l;
    s->client = client;
    return s;
}

void providers_close(struct providers *s)
{
    if (s == NULL) {
        return;
    }
    assert(s->n_calls == 0);
    provider__http_close_drains(s);
    lane_close(s->lane);
    free(s);
}

// ---- looking things up ----------------------------------------------------------------------

/// The value of a variable in the client's environment; NULL when it is not there or empty.
static const char *get_variable(const struct provider_wish *wish, const char *name)
{
    const char *value = str_env(wish->env, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/// A text setting of a provider; NULL when it has none, or an empty one.
static const char *get_setting(const struct config *c, const char *pattern, const char *provider)
{
    const struct config_entry *entry = config_find_named(c, pattern, provider);
    return entry != NULL && entry->value->type == JSON_STR && entry->value->s.n != 0
               ? entry->value->s.p
               : NULL;
}

static bool is_given(const char *z)
{
    return z != NULL && z[0] != '\0';
}

static bool has_key_variable(const struct config *c, const struct provider_wish *wish,
                             const char *provider)
{
    const char *name = get_setting(c, "providers.*.api_key_env", provider);
    return name != NULL && get_variable(wish, name) != NULL;
}

// ---- keys -----------------------------------------------------------------------------------

static int take_key(struct provider_choice *ch, char *key, struct err *e)
{
    struct str s = str_trim(str_of(key));
    int rc = 0;
    ch->key = str_dup(s);
    explicit_bzero(key, strlen(key));
    free(key);
    for (size_t i = 0; i < s.n && rc == 0; i++) {
        if ((unsigned char)ch->key[i] <= ' ' || (unsigned char)ch->key[i] >= 0x7f) {
            rc = err_set(e, ERR_INVALID,
                         "the key of provider '%s' holds spaces or control characters",
                         ch->provider);
        }
    }
    redact_add(str_of(ch->provider), str_of(ch->key));
    return rc;
}

static char *read_kept_key(const struct provider_choice *ch, struct err *e)
{
    char *key = NULL;
    int rc = ch->key_secret != NULL ? secrets_get(ch->secrets, ch->key_secret, &key, e)
                                    : secrets_read_file(ch->key_file, &key, e);
    return rc == 0 ? key : NULL;
}

// A path in a setting: `~` is the home directory, others start at AFLOAT_HOME.
static char *setting_path(const struct provider_wish *wish, const char *path)
{
    const char *home = get_variable(wish, "HOME");
    if (path[0] == '~' && path[1] == '/' && home != NULL) {
        return xasprintf("%s%s", home, path + 1);
    }
    return path[0] == '/' ? xstrdup(path) : xasprintf("%s/%s", wish->home->dir, path);
}

/// Note where the key of the provider is stored. False: neither as a secret nor in a file.
static bool find_kept(struct provider_choice *ch, const struct config *c,
                      const struct provider_wish *wish)
{
    const char *secret = get_setting(c, "providers.*.api_key_secret", ch->provider);
    const char *file = get_setting(c, "providers.*.api_key_file", ch->provider);
    if (secret != NULL) {
        ch->secrets = xstrdup(wish->home->secrets);
        ch->key_secret = xstrdup(secret);
    } else if (file != NULL) {
        ch->key_file = setting_path(wish, file);
    }
    return secret != NULL || file != NULL;
}

/// Find the key: a variable of the client's environment, a secret, or a file. A provider for which the settings name
/// none of them needs no key.
static int find_key(struct provider_choice *ch, const struct config *c,
                    const struct provider_wish *wish, struct err *e)
{
    const char *env = get_setting(c, "providers.*.api_key_env", ch->provider);
    const char *value = env != NULL ? get_variable(wish, env) : NULL;
    if (value != NULL) {
        return take_key(ch, xstrdup(value), e);
    }
    if (find_kept(ch, c, wish)) {
        struct err own;
        e = e != NULL ? e : &own;
        char *key = read_kept_key(ch, e);
        if (key == NULL) {
            // the provider is known; only an unknown one is "not found"
            e->code = e->code == ERR_NOT_FOUND ? ERR_INVALID : e->code;
            return err_prefix(e, "no key for provider '%s'", ch->provider);
        }
        return take_key(ch, key, e);
    }
    return env == NULL ? 0
                       : err_set(e, ERR_INVALID,
                                 "no key for provider '%s': set the environment variable %s",
                                 ch->provider, env);
}

char *provider__read_key(const struct provider_choice *choice)
{
    if (choice->key_secret == NULL && choice->key_file == NULL) {
        return NULL;
    }
    char *raw = read_kept_key(choice, NULL);
    if (raw == NULL) {
        return NULL;
    }
    char *key = str_dup(str_trim(str_of(raw)));
    explicit_bzero(raw, strlen(raw));
    free(raw);
    redact_add(str_of(choice->provider), str_of(key));
    return key;
}

// ---- choosing -------------------------------------------------------------------------------

bool providers_has(const struct providers *s, const struct config *c, struct str name,
                   const char *dir)
{
    char *text = str_dup(name);
    bool has = get_setting(c, "providers.*.kind", text) != NULL || provider__offer(s, name, dir);
    free(text);
    return has;
}

static bool is_provider(const struct config *c, const struct provider_wish *wish, const char *name)
{
    return providers_has(wish->service, c, str_of(name), wish->cwd);
}

struct provider_names providers_list(const struct providers *s, const struct config *c,
                                     const char *dir)
{
    struct provider_names list = {0};
    const char *name;
    for (size_t at = 0; (name = config_next_name(c, "providers", &at)) != NULL;) {
        if (get_setting(c, "providers.*.kind", name) != NULL) { // without one it is no provider
            vec_push(&list, name);
        }
    }
    size_t own = list.n;
    provider__add_offers(s, dir, &list);
    for (size_t i = list.n; i-- > own;) { // settings win over plugins of the same name
        if (get_setting(c, "providers.*.kind", list.p[i]) != NULL) {
            vec_remove(&list, i);
        }
    }
    return list;
}

/// The provider whose name is nearly this one; NULL: none is.
static const char *nearest_to(const struct config *c, const struct provider_wish *wish,
                              const char *name)
{
    struct provider_names all = providers_list(wish->service, c, wish->cwd);
    const char *nearest = str_nearest(str_of(name), all.p, all.n);
    vec_fini(&all);
    return nearest;
}

static int refuse_unknown(const struct config *c, const struct provider_wish *wish,
                          const char *name, struct err *e)
{
    const char *nearest = nearest_to(c, wish, name);
    return err_set(e, ERR_NOT_FOUND, "there is no provider '%s'%s%s%s", name,
                   nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "'?" : "");
}

// "PROVIDER/MODEL" where PROVIDER is one; the slash of other names is part of the model's.
static void split_model(const struct config *c, const struct provider_wish *wish,
                        struct provider_choice *ch, const char *model)
{
    const char *slash = strchr(model, '/');
    if (slash != NULL && ch->provider == NULL) {
        char *name = xstrndup(model, (size_t)(slash - model));
        if (is_provider(c, wish, name)) {
            ch->provider = name;
            ch->model = xstrdup(slash + 1);
            return;
        }
        free(name);
    }
    ch->model = xstrdup(model);
}

static void choose_provider(struct provider_choice *ch, const struct config *c,
                            const struct provider_wish *wish)
{
    const char *asked = get_variable(wish, "AFLOAT_PROVIDER");
    asked = asked != NULL ? asked : config_str(c, "model.provider");
    if (is_given(asked)) {
        ch->provider = xstrdup(asked);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(built_in); i++) {
        if (has_key_variable(c, wish, built_in[i])) {
            ch->provider = xstrdup(built_in[i]);
            return;
        }
    }
    ch->provider = xstrdup("scripted");
    ch->fallback = true;
}

/// One of those that the plugin lists; the first when none is named.
static int choose_offered(struct provider_choice *ch, const struct provider_wish *wish,
                          struct err *e)
{
    const char **names;
    struct arena a = {0};
    const struct gen_item *it = provider__offer(wish->service, str_of(ch->provider), wish->cwd);
    size_t n = provider__offer_models(it, &a, &names), at = 0;
    int rc = 0;
    if (!is_given(ch->model)) {
        free(ch->model);
        ch->model = xstrdup(n != 0 ? names[0] : "default");
    } else if (n != 0 && !wish->any_model) {
        while (at < n && strcmp(names[at], ch->model) != 0) {
            at++;
        }
        const char *near = at == n ? str_nearest(str_of(ch->model), names, n) : NULL;
        if (at == n) {
            rc = err_set(e, ERR_NOT_FOUND, "provider '%s' has no model '%s'%s%s%s", ch->provider,
                         ch->model, near != NULL ? "; did you mean '" : "",
                         near != NULL ? near : "", near != NULL ? "'?" : "");
        }
    }
    arena_fini(&a);
    return rc;
}

static int choose_model(struct provider_choice *ch, const struct config *c,
                        const struct provider_wish *wish, struct err *e)
{
    // a model's name in [model] belongs to the provider named there, if one is
    const char *provider = config_str(c, "model.provider"), *name = config_str(c, "model.name");
    bool ours = !is_given(provider) || strcmp(provider, ch->provider) == 0;
    const char *model =
        ours && is_given(name) ? name : get_setting(c, "providers.*.model", ch->provider);
    if (ch->impl->wire == &wire_plugin) {
        return choose_offered(ch, wish, e);
    }
    if (is_given(ch->model)) {
        return 0;
    }
    free(ch->model);
    ch->model = NULL;
    if (model == NULL && strcmp(ch->kind, "scripted") != 0 && !wish->any_model) {
        return err_set(
            e, ERR_INVALID,
            "no model for provider '%s': name one with -m MODEL or [model] name; `afloat "
            "models %s` lists them",
            ch->provider, ch->provider);
    }
    ch->model = xstrdup(model != NULL                       ? model
                        : strcmp(ch->kind, "scripted") == 0 ? "scripted"
                                                            : "");
    return 0;
}

static int choose_scenario(struct provider_choice *ch, const struct config *c,
                           const struct provider_wish *wish, struct err *e)
{
    const char *path = get_variable(wish, "AFLOAT_SCENARIO");
    const char *setting = get_setting(c, "providers.*.scenario", ch->provider);
    if (path == NULL) {
        ch->scenario = setting != NULL ? setting_path(wish, setting) : NULL;
        return 0;
    }
    if (path[0] != '/' && wish->cwd == NULL) {
        return err_set(e, ERR_INVALID, "AFLOAT_SCENARIO must be an absolute path, not '%s'", path);
    }
    ch->scenario = path[0] == '/' ? xstrdup(path) : xasprintf("%s/%s", wish->cwd, path);
    return 0;
}

static double price_of(const struct config *c, const char *pattern, const char *model)
{
    const struct config_entry *entry = config_find_named(c, pattern, model);
    return entry != NULL ? json_double(entry->value, (double)NAN) : (double)NAN;
}

static int choose_address(struct provider_choice *ch, const struct config *c, struct err *e)
{
    const char *url = get_setting(c, "providers.*.base_url", ch->provider);
    if (url == NULL) {
        return err_set(e, ERR_INVALID, "provider '%s' has no base_url", ch->provider);
    }
    size_t n = strlen(url);
    while (n != 0 && url[n - 1] == '/') {
        n--;
    }
    ch->base_url = xstrndup(url, n);
    return 0;
}

static int choose_kind(struct provider_choice *ch, const struct config *c,
                       const struct provider_wish *wish, struct err *e)
{
    const char *kind = get_setting(c, "providers.*.kind", ch->provider);
    if (kind == NULL && provider__offer(wish->service, str_of(ch->provider), wish->cwd) != NULL) {
        kind = wire_plugin.kind;
    }
    if (kind == NULL) {
        return refuse_unknown(c, wish, ch->provider, e);
    }
    ch->impl = kinds;
    while (strcmp(ch->impl->name, kind) != 0) {
        ch->impl++;
        assert(ch->impl < kinds + ARRAY_LEN(kinds)); // the schema lists the same names
    }
    ch->kind = xstrdup(kind);
    return 0;
}

/// Replace the names that were asked for with those of a [policy]. Another provider does not get the model's name.
static void hold_names(struct provider_choice *ch, const struct config *c)
{
    const char *provider = config_str(c, "model.provider"), *model = config_str(c, "model.name");
    bool other = ch->provider != NULL && strcmp(ch->provider, provider) != 0;
    if (config_is_policy(c, "model.provider") && is_given(provider)) {
        free(ch->provider);
        ch->provider = xstrdup(provider);
        if (other) {
            free(ch->model);
            ch->model = NULL;
        }
    }
    if (config_is_policy(c, "model.name") && is_given(model)) {
        free(ch->model);
        ch->model = xstrdup(model);
    }
}

static void choose_names(struct provider_choice *ch, const struct config *c,
                         const struct provider_wish *wish)
{
    const char *model = is_given(wish->model) ? wish->model : get_variable(wish, "AFLOAT_MODEL");
    if (is_given(wish->provider)) {
        ch->provider = xstrdup(wish->provider);
    }
    if (is_given(model)) {
        split_model(c, wish, ch, model);
    }
    hold_names(ch, c);
    if (ch->provider == NULL) {
        choose_provider(ch, c, wish);
    }
}

/// Refuse a model such as "openia/gpt". The part before the slash was meant as a provider if it is nearly the name of
/// one, or if only the offline demo would answer.
static int check_prefix(const struct provider_choice *ch, const struct config *c,
                        const struct provider_wish *wish, struct err *e)
{
    const char *slash = is_given(ch->model) ? strchr(ch->model, '/') : NULL;
    if (slash == NULL || slash == ch->model || is_given(wish->provider)) {
        return 0;
    }
    char *prefix = xstrndup(ch->model, (size_t)(slash - ch->model));
    bool meant =
        ch->fallback || (!is_provider(c, wish, prefix) && nearest_to(c, wish, prefix) != NULL);
    int rc = meant ? refuse_unknown(c, wish, prefix, e) : 0;
    free(prefix);
    return rc;
}

int providers_resolve(struct provider_choice *ch, const struct config *c,
                      const struct provider_wish *wish, struct err *e)
{
    *ch = (struct provider_choice){0};
    choose_names(ch, c, wish);
    int rc = check_prefix(ch, c, wish, e);
    if (rc == 0) {
        rc = choose_kind(ch, c, wish, e);
    }
    if (rc == 0) {
        rc = choose_model(ch, c, wish, e);
    }
    if (rc == 0 && ch->impl->transport == &provider_transport_scripted) {
        rc = choose_scenario(ch, c, wish, e);
    } else if (rc == 0 && ch->impl->path != NULL) {
        rc = choose_address(ch, c, e);
        rc = rc == 0 ? find_key(ch, c, wish, e) : rc;
    }
    if (rc != 0) {
        provider_choice_fini(ch);
        return rc;
    }
    ch->dir = wish->cwd != NULL ? xstrdup(wish->cwd) : NULL;
    ch->retry = (struct retry_policy){
        .tries = (unsigned)config_int(c, "retry.tries"),
        .first_ms = (uint64_t)config_int(c, "retry.first_ms"),
        .total_ms = (uint64_t)config_int(c, "retry.total_ms"),
        .idle_ms = (uint64_t)config_int(c, "retry.idle_ms"),
    };
    ch->facts = model_facts(c, ch->kind, ch->model);
    ch->prices = (struct provider_prices){
        .input = price_of(c, "prices.*.input", ch->model),
        .cached = price_of(c, "prices.*.cached", ch->model),
        .output = price_of(c, "prices.*.output", ch->model),
    };
    return 0;
}

const char *provider_choice_key(const struct provider_choice *choice)
{
    return choice->key;
}

void provider_choice_fini(struct provider_choice *choice)
{
    if (choice->key != NULL) {
        explicit_bzero(choice->key, strlen(choice->key));
    }
    char *owned[] = {choice->provider, choice->kind, choice->model,    choice->base_url,
                     choice->scenario, choice->key,  choice->key_file, choice->key_secret,
                     choice->secrets,  choice->dir};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++) {
        free(owned[i]);
    }
    *choice = (struct provider_choice){0};
}

// ---- cost, variables, lists -----------------------------------------------------------------

double provider_cost(const struct provider_choice *choice, const struct provider_usage *u)
{
    const struct provider_prices *p = &choice->prices;
    double cached_price = isnan(p->cached) ? p->input : p->cached;
    if (u->input < 0 || u->output < 0) {
        return (double)NAN;
    }
    double cached = (double)MIN(MAX(u->cached, 0), u->input);
    return (((double)u->input - cached) * p->input + cached * cached_price +
            (double)u->output * p->output) /
           1e6;
}

bool providers_owns_variable(const struct config *c, struct str name)
{
    const char *provider;
    if (str_lookup(name, our_variables, ARRAY_LEN(our_variables)) >= 0) {
        return true;
    }
    for (size_t at = 0; (provider = config_next_name(c, "providers", &at)) != NULL;) {
        const char *variable = get_setting(c, "providers.*.api_key_env", provider);
        if (variable != NULL && str_eqz(name, variable)) {
            return true;
        }
    }
    return false;
}

static void write_row(struct jw *w, const struct config *c, const struct provider_wish *wish,
                      const char *name, const char *chosen)
{
    struct provider_choice probe = {.provider = xstrdup(name)};
    struct err e = {0};
    bool variable = has_key_variable(c, wish, name);
    bool kept = find_kept(&probe, c, wish);
    probe.key = kept && !variable ? read_kept_key(&probe, &e) : NULL;
    jw_obj(w);
    jw_kstrz(w, "name", name);
    jw_kstrz(w, "kind", get_setting(c, "providers.*.kind", name));
    jw_kstrz(w, "base_url", get_setting(c, "providers.*.base_url", name));
    jw_kstrz(w, "model", get_setting(c, "providers.*.model", name));
    if (kept && !variable && probe.key == NULL) {
        jw_kstrz(w, "key_error", e.msg);
    }
    jw_kbool(w, "has_key", variable || probe.key != NULL);
    jw_kbool(w, "needs_key", kept || get_setting(c, "providers.*.api_key_env", name) != NULL);
    jw_kbool(w, "default", strcmp(name, chosen) == 0);
    jw_end_obj(w);
    provider_choice_fini(&probe);
}

static void write_offered(struct jw *w, const struct gen_item *it, const char *chosen)
{
    const char **models;
    struct arena a = {0};
    size_t n = provider__offer_models(it, &a, &models);
    jw_obj(w);
    jw_kstrz(w, "name", gen_item_name(it));
    jw_kstrz(w, "kind", wire_plugin.kind);
    jw_kstrz(w, "plugin", gen_item_unit(it)->name);
    jw_kstrz(w, "model", n != 0 ? models[0] : NULL);
    jw_kstrs(w, "models", models, n);
    jw_kbool(w, "has_key", true);
    jw_kbool(w, "needs_key", false);
    jw_kbool(w, "default", strcmp(gen_item_name(it), chosen) == 0);
    jw_end_obj(w);
    arena_fini(&a);
}

void providers_write_list(struct jw *w, const struct config *c, const struct provider_wish *wish)
{
    struct provider_choice ch = {0};
    choose_names(&ch, c, wish);
    struct provider_names all = providers_list(wish->service, c, wish->cwd);
    jw_arr(w);
    vec_foreach (name, &all) {
        if (get_setting(c, "providers.*.kind", *name) != NULL) {
            write_row(w, c, wish, *name, ch.provider);
        } else {
            write_offered(w, provider__offer(wish->service, str_of(*name), wish->cwd), ch.provider);
        }
    }
    jw_end_arr(w);
    vec_fini(&all);
    provider_choice_fini(&ch);
}
