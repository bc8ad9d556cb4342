// The environment travels with the client: what a session's tools see, and which model answers, is what
// the person who starts it has set, not what the hub was started with.
//
// Sent are all variables but those of [tool_env] drop, which look like secrets; of these only the ones
// that hold the key of a provider. The hub takes the keys out again and keeps them in memory.

#include "client/travel.h"

#include <ctype.h>
#include <unistd.h>

#include "loop/proc.h"

struct config *travel_config(const struct home *home, bool hub, struct err *e)
{
    struct config_sources src = {.home = home, .env = (const char *const *)environ, .hub = hub};
    struct config *config = NULL;
    struct config_diags diags;
    config_diags_init(&diags);
    int rc = config_load(&config, &src, &diags, e);
    config_diags_fini(&diags);
    return rc < 0 ? NULL : config;
}

bool travel_is_key(const struct config *config, struct str name)
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
    const char *const *pattern = config_strings(config, "tool_env.drop");
    char *upper = str_dup(name);
    bool dropped = false;
    for (size_t i = 0; i < name.n; i++) {
        upper[i] = (char)toupper((unsigned char)upper[i]);
    }
    for (; *pattern != NULL && !dropped; pattern++) {
        dropped = str_glob(str_of(*pattern), (struct str){upper, name.n});
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

const char *travel_umask(char out[TRAVEL_UMASK])
{
    snprintf(out, TRAVEL_UMASK, "%04o", (unsigned)(proc_umask() & 0777));
    return out;
}

static void write_all(const struct config *config, struct jw *w)
{
    jw_obj(w);
    for (char **v = environ; *v != NULL; v++) {
        struct str value = str_of(*v);
        struct str name = str_cut(&value, '=');
        if (name.n == 0 || str_eqz(name, "AFLOAT_UMASK") ||
            (is_dropped(config, name) && !travel_is_key(config, name))) {
            continue;
        }
        jw_key_str(w, name);
        if (str_eqz(name, "AFLOAT_SCENARIO")) {
            write_scenario(w, value);
        } else {
            jw_str(w, value);
        }
    }
    char mask[TRAVEL_UMASK];
    jw_kstrz(w, "AFLOAT_UMASK", travel_umask(mask));
    jw_end_obj(w);
}

int travel_write_env(const struct home *home, struct jw *w, struct err *e)
{
    struct config *config = travel_config(home, false, e);
    if (config == NULL) {
        return e->code;
    }
    write_all(config, w);
    config_free(config);
    return 0;
}
