// What is sent along with a session: the environment of this client, and what its flags choose.

#include "cli/sent.h"

#include <unistd.h>

#include "client/travel.h"

static struct config *load(struct cli *c)
{
    struct err e = {0};
    struct config *config = travel_config(&c->home, false, &e);
    if (config == NULL) {
        cli__fail(c, &e);
    }
    return config;
}

int sent_write_env(struct cli *c, struct jw *w)
{
    struct err e = {0};
    return travel_write_env(&c->home, w, &e) < 0 ? cli__fail(c, &e) : EXIT_OK;
}

int sent_write_keys(struct cli *c, struct buf *out)
{
    struct config *config = load(c);
    if (config == NULL) {
        return EXIT_FAILED;
    }
    for (char **v = environ; *v != NULL; v++) {
        struct str value = str_of(*v);
        struct str name = str_cut(&value, '=');
        if (value.n != 0 && travel_is_key(config, name)) {
            buf_addz(out, out->n != 0 ? "," : "");
            buf_adds(out, name);
        }
    }
    config_free(config);
    return EXIT_OK;
}

const char *sent_cut_provider(struct cli *c, struct arena *arena, const char **model)
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

void sent_write_choices(struct cli *c, struct jw *w)
{
    static const struct {
        enum flag_id flag;
        const char *key;
    } texts[] = {{FLAG_SANDBOX, "sandbox"}, {FLAG_PERMISSION, "permission"}},
      numbers[] = {{FLAG_MAX_STEPS, "max_steps"}, {FLAG_MAX_COST, "max_cost"}};
    const struct args *a = &c->args;
    const char *model = args_value(a, FLAG_MODEL), *provider = args_value(a, FLAG_PROVIDER);
    struct arena arena = {0};
    if (model != NULL && provider == NULL) {
        provider = sent_cut_provider(c, &arena, &model);
    }
    if (provider != NULL) {
        jw_kstrz(w, "provider", provider);
    }
    if (model != NULL) {
        jw_kstrz(w, "model", model);
    }
    arena_fini(&arena);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (args_has(a, texts[i].flag)) {
            jw_kstrz(w, texts[i].key, args_value(a, texts[i].flag));
        }
    }
    if (args_has(a, FLAG_NETWORK)) {
        jw_kbool(w, "network", true);
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        if (args_has(a, numbers[i].flag)) {
            jw_key(w, numbers[i].key);
            jw_raw(w, str_of(args_value(a, numbers[i].flag)));
        }
    }
    if (args_has(a, FLAG_PLUGINS) || args_has(a, FLAG_NO_PLUGINS)) {
        bool none = args_has(a, FLAG_NO_PLUGINS);
        struct str names = none ? STR_NULL : str_of(args_value(a, FLAG_PLUGINS));
        jw_karr(w, "plugins");
        while (names.n != 0) {
            struct str name = str_trim(str_cut(&names, ','));
            if (name.n != 0) {
                jw_str(w, name);
            }
        }
        jw_end_arr(w);
    }
}
