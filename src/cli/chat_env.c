// The environment travels with the client: what a session's tools see, and which model answers, is what
// the person who starts it has set, not what the hub was started with.
//
// Sent are all variables but those of [tool_env] drop, which look like secrets; of these only the ones
// that hold the key of a provider. The hub takes the keys out again and keeps them in memory.

#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/chat_int.h"
#include "cli/travel.h"
#include "config/config.h"

static struct config *load(struct cli *c)
{
    struct err e = {0};
    struct config *config = cli__config(&c->home, false, &e);
    if (config == NULL) {
        cli__fail(c, &e);
    }
    return config;
}

static bool is_key(const struct config *config, struct str name)
{
    const char *provider;
    size_t at = 0;
    while ((provider = config_next_name(config, "providers", &at)) != NULL) {
        const struct config_entry *e =
            config_find_named(config, "providers.*.api_key_env", provider);
        if (e != NULL && str_eq(json_str(e->value, ""), name)) {
            return true;
        }
    }
    return false;
}

static bool is_dropped(const struct config *config, struct str name)
{
    size_t n;
    const char *const *patterns = config_strings(config, "tool_env.drop", &n);
    char *upper = str_dup(name);
    bool dropped = false;
    for (size_t i = 0; i < name.n; i++) {
        upper[i] = (char)toupper((unsigned char)upper[i]);
    }
    for (size_t i = 0; i < n && !dropped; i++) {
        dropped = str_glob(str_of(patterns[i]), (struct str){upper, name.n});
    }
    free(upper);
    return dropped;
}

// A scenario is named as seen from here; the hub stands elsewhere.
static void write_scenario(struct jw *w, struct str path)
{
    char *here = getcwd(NULL, 0);
    if (path.n == 0 || path.p[0] == '/' || here == NULL) {
        jw_str(w, path);
    } else {
        jw_strf(w, "%s/" STR_FMT, here, STR_ARG(path));
    }
    free(here);
}

const char *chat__umask(char out[CHAT_UMASK])
{
    mode_t mask = umask(077); // there is no other way to ask
    umask(mask);
    snprintf(out, CHAT_UMASK, "%04o", (unsigned)(mask & 0777));
    return out;
}

static void write_all(const struct config *config, struct jw *w)
{
    jw_obj(w);
    for (char **v = environ; *v != NULL; v++) {
        struct str value = str_of(*v);
        struct str name = str_cut(&value, '=');
        if (name.n == 0 || str_eqz(name, "AFLOAT_UMASK") ||
            (is_dropped(config, name) && !is_key(config, name))) {
            continue;
        }
        jw_key_str(w, name);
        if (str_eqz(name, "AFLOAT_SCENARIO")) {
            write_scenario(w, value);
        } else {
            jw_str(w, value);
        }
    }
    char mask[CHAT_UMASK];
    jw_kstrz(w, "AFLOAT_UMASK", chat__umask(mask));
    jw_end_obj(w);
}

int travel_write_env(const struct home *home, struct jw *w, struct err *e)
{
    struct config *config = cli__config(home, false, e);
    if (config == NULL) {
        return e->code;
    }
    write_all(config, w);
    config_free(config);
    return 0;
}

int chat__write_env(struct cli *c, struct jw *w)
{
    struct err e = {0};
    return travel_write_env(&c->home, w, &e) < 0 ? cli__fail(c, &e) : EXIT_OK;
}

int chat__write_keys(struct cli *c, struct buf *out)
{
    struct config *config = load(c);
    if (config == NULL) {
        return EXIT_FAILED;
    }
    for (char **v = environ; *v != NULL; v++) {
        struct str value = str_of(*v);
        struct str name = str_cut(&value, '=');
        if (value.n != 0 && is_key(config, name)) {
            buf_addz(out, out->n != 0 ? "," : "");
            buf_adds(out, name);
        }
    }
    config_free(config);
    return EXIT_OK;
}

const char *chat__cut_provider(struct cli *c, struct arena *arena, const char **model)
{
    struct str rest = str_of(*model);
    struct str front = str_cut(&rest, '/');
    const char *found = NULL, *name;
    size_t at = 0;
    struct config *config = rest.n != 0 ? load(c) : NULL;
    while (config != NULL && (name = config_next_name(config, "providers", &at)) != NULL) {
        if (str_eqz(front, name)) {
            found = arena_strdup(arena, front);
            *model = rest.p;
        }
    }
    config_free(config);
    return found;
}

void chat__write_model(struct cli *c, struct jw *w)
{
    const char *model = args_value(&c->args, FLAG_MODEL);
    const char *provider = args_value(&c->args, FLAG_PROVIDER);
    struct arena arena = {0};
    if (model != NULL && provider == NULL) {
        provider = chat__cut_provider(c, &arena, &model);
    }
    if (provider != NULL) {
        jw_kstrz(w, "provider", provider);
    }
    if (model != NULL) {
        jw_kstrz(w, "model", model);
    }
    arena_fini(&arena);
}
