// Which providers and engines there are, and what models one of them offers.
//
// Keys belong to the client. The list is asked for with the names of the variables that hold keys. The models
// of a provider are asked for with the key itself, which the hub takes from a session: where there is a key,
// a session is made for the question and removed after it.

#include "cli/call.h"
#include "cli/sent.h"
#include "cli/sessions.h"

// ---- providers -----------------------------------------------------------------------------

static int list_providers(struct cli *c, const char *keys, struct arena *arena)
{
    const struct layout providers = {
        "providers",
        COLUMNS(COL("NAME", ID, NULL), COL("KIND", WORD, NULL), COL("MODEL", TEXT, NULL),
                COL("KEY", TEXT,
                    "{kind=plugin?no key needed}||{has_key?has a key}||{key_error}||{needs_key?no "
                    "key}||no key needed"),
                COL("DEFAULT", DIM, "{default?default}")),
        NULL};
    const struct column *engines =
        COLUMNS(COL("ENGINE", ID, "{name}"), COL("KIND", WORD, NULL),
                COL("VERSION", TEXT, "{version}||{installed?installed}||not installed"),
                COL("PROGRAM", LONG, "{program}||{install}||set 'command' in [engines.{name}]"));
    const struct json *v;
    struct ask_param params[] = {{"keys", keys[0] != '\0' ? keys : NULL}, {"path", getenv("PATH")}};
    int code = ask_value(c, OP_PROVIDER_LIST, params, ARRAY_LEN(params), arena, &v);
    if (v != NULL) {
        show_answer(c, &providers, v);
        out_add(&c->out, STR("\n"));
        show_rows(c, engines, json_get(v, "engines"));
    }
    return code;
}

// ---- models --------------------------------------------------------------------------------

// A session that holds our keys; its id lives in `arena`. It is with the scripted provider, which needs
// neither key nor model: nothing is said in it.
static int make_session(struct cli *c, struct arena *arena, const char **id)
{
    const struct json *row = NULL;
    struct buf env = {.max = SIZE_MAX};
    struct jw w = {.out = &env};
    int code = sent_write_env(c, &w);
    if (code == EXIT_OK) {
        struct ask_param params[] = {{"provider", "scripted"}, {"env", buf_z(&env)}};
        code = sessions__ask(c, OP_SESSION_NEW, params, ARRAY_LEN(params), arena, &row);
    }
    *id = row != NULL ? arena_strdup(arena, json_get_text(row, "id")) : NULL;
    buf_fini(&env);
    return code;
}

int models__of(struct cli *c, const char *name, bool keys, struct arena *arena,
               const struct json **out)
{
    const char *session = NULL;
    *out = NULL;
    int code = keys ? make_session(c, arena, &session) : EXIT_OK;
    if (code == EXIT_OK) {
        struct ask_param params[] = {{"name", name}, {"session", session}};
        code = ask_value(c, OP_PROVIDER_MODELS, params, ARRAY_LEN(params), arena, out);
    }
    if (session != NULL) {
        const struct json *ended;
        struct ask_param params[] = {{"id", session}, {"purge", "true"}};
        sessions__ask(c, OP_SESSION_END, params, ARRAY_LEN(params), arena, &ended);
    }
    return code;
}

int cmd_models(struct cli *c)
{
    struct arena arena = {0};
    struct buf keys = {.max = 64 << 10};
    const char *name = args_word(&c->args, 0);
    const struct json *v = NULL;
    int code = sent_write_keys(c, &keys);
    if (code == EXIT_OK) {
        code = name != NULL ? models__of(c, name, keys.n != 0, &arena, &v)
                            : list_providers(c, buf_z(&keys), &arena);
    }
    json_foreach_item (model, json_get(v, "models")) {
        out_text(&c->out, json_str(model, ""));
        out_add(&c->out, STR("\n"));
    }
    buf_fini(&keys);
    arena_fini(&arena);
    return code;
}
