// What a chat sends along: the environment of this client, and the model that its flags name.

#include <unistd.h>

#include "cli/chat_int.h"
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
        if (value.n != 0 && travel_is_key(config, name)) {
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
