// First use: find a model, choose it, see whether it answers.
//
//     look ──> keys in the environment, servers on loopback, --url ──> choose ──> config.toml ──> ask for its models
//
// Codex and Claude, where they are installed, need none of it: they are named with the flag that uses them.
//
// A key is never read, only its name. config.toml is the user's: it is written where there is none, and otherwise the
// lines to add are printed. A built-in provider whose key is set needs no line if the hub takes it by itself.

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/path.h"
#include "base/toml.h"
#include "cli/sent.h"
#include "cli/sessions.h"
#include "client/client.h"
#include "proto/engines.h"

enum { FOUND_MAX = 16, MODELS_SHOWN = 3, PROBE_MS = 400, NAMED_MS = 5000 };

/// A provider that could be used. Strings live in the arena.
struct found {
    const char *name, *kind;
    const char *key; // the variable that holds its key; NULL: none is needed
    const char *url; // of a server that needs an entry in [providers]; NULL: built in
    const struct json *models;
};

struct setup {
    struct cli *c;
    struct arena arena;
    struct found found[FOUND_MAX];
    size_t n;
};

// ---- looking -------------------------------------------------------------------------------

static void look_for_keys(struct setup *s)
{
    static const struct found known[] = {
        // in the order in which the hub takes them: agent/providers.c
        {"openai", "openai-responses", "OPENAI_API_KEY", NULL, NULL},
        {"anthropic", "anthropic", "ANTHROPIC_API_KEY", NULL, NULL}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const char *value = getenv(known[i].key);
        if (value != NULL && value[0] != '\0') {
            s->found[s->n++] = known[i];
        }
    }
}

/// Take in the server at HOST:PORT if it lists models below `base`. Failing, `e` says why not.
static int probe(struct setup *s, const char *name, const char *tcp, const char *base,
                 unsigned timeout_ms, struct err *e)
{
    struct client_peer to = {.tcp = tcp};
    struct client_request r = {.method = "GET",
                               .path = arena_printf(&s->arena, "%s/models", base),
                               .timeout_ms = timeout_ms};
    struct client_answer a;
    struct json *v = NULL;
    client_answer_init(&a);
    int rc = client_call(&to, &r, &a, e);
    struct str body = arena_str(&s->arena, buf_str(&a.body));
    bool listed = rc == 0 && a.status == 200 && json_parse(&v, &s->arena, body, NULL, NULL) == 0 &&
                  json_at(json_get(v, "data"), 0) != NULL;
    if (rc == 0 && (a.status == 401 || a.status == 403)) {
        rc =
            err_set(e, ERR_DENIED, "it wants a key: name it in config.toml ('afloat help config')");
    } else if (rc == 0 && a.status != 200) {
        rc = err_set(e, ERR_INVALID, "GET %s answered with status %d", r.path, a.status);
    } else if (rc == 0 && !listed) {
        rc = err_set(e, ERR_INVALID, "what GET %s answered lists no models", r.path);
    }
    if (rc == 0 && s->n < FOUND_MAX) {
        s->found[s->n++] = (struct found){.name = name,
                                          .kind = "openai-chat",
                                          .url = arena_printf(&s->arena, "http://%s%s", tcp, base),
                                          .models = json_get(v, "data")};
    }
    client_answer_fini(&a);
    return rc;
}

static void look_on_loopback(struct setup *s)
{
    static const struct {
        const char *name, *tcp;
    } usual[] = {{"ollama", "127.0.0.1:11434"},
                 {"lmstudio", "127.0.0.1:1234"},
                 {"llamacpp", "127.0.0.1:8080"},
                 {"vllm", "127.0.0.1:8000"}};
    for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
        (void)probe(s, usual[i].name, usual[i].tcp, "/v1", PROBE_MS, NULL); // most are not there
    }
}

/// The server that --url names, as in http://127.0.0.1:9000/v1.
static int look_at(struct setup *s, const char *url)
{
    struct str rest = str_of(url), scheme = STR("http://");
    if (!str_starts(rest, "http://") || strpbrk(url, "@?#") != NULL) {
        out_error(
            &s->c->out,
            "--url takes a server without a key, as in http://127.0.0.1:9000/v1; write others into "
            "config.toml: afloat help config");
        return EXIT_USAGE;
    }
    rest = str_from(rest, scheme.n);
    struct str host = rest;
    const char *slash = memchr(rest.p, '/', rest.n);
    host.n = slash != NULL ? (size_t)(slash - rest.p) : rest.n;
    struct str base = slash != NULL ? str_from(rest, host.n) : STR("/v1");
    base.n -= str_ends(base, "/");
    const char *port = memchr(host.p, ':', host.n) != NULL ? "" : ":80";
    struct err e = {0};
    int rc = probe(s, "local", arena_printf(&s->arena, STR_FMT "%s", STR_ARG(host), port),
                   arena_strdup(&s->arena, base), NAMED_MS, &e);
    if (rc < 0) {
        out_error(&s->c->out, "no models at %s: %s", url, e.msg);
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

// ---- showing and choosing ------------------------------------------------------------------

/// A text as a string of TOML.
static const char *quote(struct setup *s, struct str text)
{
    struct buf out = {.max = SIZE_MAX};
    toml_add_str(&out, text);
    const char *kept = arena_strdup(&s->arena, buf_str(&out));
    buf_fini(&out);
    return kept;
}

static void show_found(struct setup *s)
{
    struct out *o = &s->c->out;
    for (size_t i = 0; i < s->n; i++) {
        const struct found *f = &s->found[i];
        out_addf(o, "  %zu  %-10s ", i + 1, f->name);
        if (f->key != NULL) {
            out_addf(o, "%s is set\n", f->key);
            continue;
        }
        out_text(o, str_of(f->url));
        for (size_t k = 0; k < f->models->n && k < MODELS_SHOWN; k++) {
            out_add(o, k == 0 ? STR(": ") : STR(", "));
            out_text(o, json_str(json_get(json_at(f->models, k), "id"), "?"));
        }
        out_addf(o, f->models->n > MODELS_SHOWN ? ", and %zu more\n" : "\n",
                 (size_t)f->models->n - MODELS_SHOWN);
    }
    out_flush(o);
}

/// Choose one: by --provider, else by asking the user, else the first. NULL: the error was printed, with `*code`.
static struct found *choose(struct setup *s, int *code)
{
    assert(s->n > 0);
    const char *wanted = args_value(&s->c->args, FLAG_PROVIDER);
    for (size_t i = 0; wanted != NULL && i < s->n; i++) {
        if (strcmp(s->found[i].name, wanted) == 0) {
            return &s->found[i];
        }
    }
    if (wanted != NULL) {
        out_error(&s->c->out, "'%s' is not among what was found", wanted);
        *code = EXIT_NOT_FOUND;
        return NULL;
    }
    bool asks = s->n > 1 && isatty(STDIN_FILENO) == 1 && s->c->out.terminal && !s->c->json &&
                !args_has(&s->c->args, FLAG_NO_INPUT);
    if (!asks) {
        return &s->found[0];
    }
    char line[64];
    for (;;) {
        out_addf(&s->c->out, "Which one? [1] ");
        out_flush(&s->c->out);
        if (fgets(line, sizeof line, stdin) == NULL) {
            *code = EXIT_INTERRUPTED;
            return NULL;
        }
        long n = line[0] == '\n' ? 1 : strtol(line, NULL, 10);
        if (n >= 1 && (size_t)n <= s->n) {
            return &s->found[n - 1];
        }
    }
}

// ---- writing and trying --------------------------------------------------------------------

static bool has_lines(const char *path, const char *text)
{
    struct buf have = {.max = 1 << 20};
    bool has = path_read(path, &have, NULL) == 0 && strstr(buf_z(&have), text) != NULL;
    buf_fini(&have);
    return has;
}

/// The lines of config.toml that make `f` the model of every chat.
static const char *lines_for(struct setup *s, const struct found *f)
{
    const char *wanted = args_value(&s->c->args, FLAG_MODEL);
    struct str model = wanted != NULL ? str_of(wanted) : json_get_text(json_at(f->models, 0), "id");
    const char *text = arena_printf(&s->arena, "[model]\nprovider = \"%s\"\n", f->name);
    if (wanted != NULL || f->key == NULL) { // a built-in provider has a usual model
        text = arena_printf(&s->arena, "%sname = %s\n", text, quote(s, model));
    }
    if (f->url != NULL) {
        text = arena_printf(&s->arena, "%s\n[providers.%s]\nkind = \"%s\"\nbase_url = %s\n", text,
                            f->name, f->kind, quote(s, str_of(f->url)));
    }
    return text;
}

/// Write the lines for `f` into a config.toml that is not there yet, or print them if it has others. The exit code.
static int write_config(struct setup *s, const struct found *f, bool *written, bool *named)
{
    struct err e = {0};
    const char *text = lines_for(s, f);
    *named = has_lines(s->c->home.config, text);
    if (access(s->c->home.config, F_OK) == 0) {
        if (!s->c->json && !*named) {
            out_addf(&s->c->out, "\n%s is yours and stays as it is. These lines use %s:\n\n%s\n",
                     s->c->home.config, f->name, text);
        }
        return EXIT_OK;
    }
    int rc = home_prepare(&s->c->home, &e);
    rc = rc == 0 ? path_write_atomic(s->c->home.config, str_of(text), 0600, &e) : rc;
    *written = *named = rc == 0;
    return rc < 0 ? cli__fail(s->c, &e) : EXIT_OK;
}

/// Ask the provider of a key for its models: that shows that the key is good, and costs nothing.
static int try_key(struct setup *s, struct found *f)
{
    const struct json *v = NULL;
    bool json = s->c->json;
    s->c->json = false;
    int code = models__of(s->c, f->name, true, &s->arena, &v);
    s->c->json = json;
    f->models = json_get(v, "models");
    return code;
}

/// Does a chat use `f`, with the model that was asked for, as the settings are?
static bool is_usual(struct setup *s, const struct found *f)
{
    const char *wanted = args_value(&s->c->args, FLAG_MODEL);
    struct buf keys = {.max = 64 << 10};
    bool usual = false;
    if (sent_write_keys(s->c, &keys) == EXIT_OK) {
        struct ask_param params[] = {{"keys", buf_z(&keys)}};
        const struct json *v = ask_quietly(s->c, OP_PROVIDER_LIST, params, 1, 0, &s->arena);
        json_foreach_item (p, json_get(v, "providers")) {
            usual |= json_bool(json_get(p, "default"), false) &&
                     str_eqz(json_get_text(p, "name"), f->name);
        }
    }
    buf_fini(&keys);
    return usual && wanted == NULL;
}

/// `chosen` is NULL when nothing was found.
static void print_json(struct setup *s, const struct found *chosen, bool written)
{
    struct jw w = {.out = &s->c->out.data};
    jw_obj(&w);
    jw_karr(&w, "found");
    for (size_t i = 0; i < s->n; i++) {
        const struct found *f = &s->found[i];
        jw_obj(&w);
        jw_kstrz(&w, "name", f->name);
        jw_kstrz(&w, "kind", f->kind);
        jw_kstrz(&w, "api_key_env", f->key);
        jw_kstrz(&w, "base_url", f->url);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_kstrz(&w, "chosen", chosen != NULL ? chosen->name : NULL);
    jw_kint(&w, "models",
            chosen != NULL && chosen->models != NULL ? (int64_t)chosen->models->n : 0);
    jw_kbool(&w, "written", written);
    jw_end_obj(&w);
    out_add(&s->c->out, STR("\n"));
}

/// Name the outside agents that are installed and could run the turns, with a login of their own. False: none is.
static bool show_engines(struct setup *s)
{
    static const char *const names[] = {ENGINE_CODEX, ENGINE_CLAUDE};
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *program = path_find_program(str_of(getenv("PATH")), names[i]);
        if (program != NULL && !s->c->json) {
            out_addf(&s->c->out,
                     "%s is installed: 'afloat chat --engine %s' lets it run the turns.\n",
                     names[i], names[i]);
        }
        any |= program != NULL;
        free(program);
    }
    return any;
}

/// Make `f` the model of every chat, or print the lines that do. The exit code.
static int use(struct setup *s, struct found *f)
{
    bool written = false, named = false;
    int code = f->key != NULL ? try_key(s, f) : EXIT_OK;
    bool usual = code == EXIT_OK && f->key != NULL && is_usual(s, f);
    if (code == EXIT_OK && !usual) {
        code = write_config(s, f, &written, &named);
    }
    if (code == EXIT_OK && s->c->json) {
        print_json(s, f, written);
    } else if (code == EXIT_OK) {
        out_addf(&s->c->out, "%s answers (%zu models)%s.\n", f->name,
                 f->models != NULL ? (size_t)f->models->n : 0,
                 named   ? "; config.toml names it"
                 : usual ? "; no settings are needed"
                         : "");
        out_addf(&s->c->out, "%s 'afloat chat' to talk to it.\n",
                 named || usual ? "Type" : "Add these lines, then type");
        show_engines(s);
    }
    return code;
}

static int set_up(struct setup *s)
{
    const char *url = args_value(&s->c->args, FLAG_URL);
    int code = EXIT_OK;
    if (url != NULL) {
        code = look_at(s, url);
    } else {
        look_for_keys(s);
        look_on_loopback(s);
    }
    if (code != EXIT_OK) {
        return code;
    }
    if (s->n == 0) {
        out_error(&s->c->out, "no model was found; until there is one, the offline model answers");
        out_hint(&s->c->out, "  set ANTHROPIC_API_KEY or OPENAI_API_KEY,");
        out_hint(&s->c->out, "  or start a local server (ollama, LM Studio, llama.cpp, vLLM),");
        out_hint(&s->c->out, "  or name a server: afloat setup --url http://HOST:PORT/v1");
        if (s->c->json) {
            print_json(s, NULL, false);
        }
        return show_engines(s) ? EXIT_OK : EXIT_FAILED;
    }
    if (!s->c->json) {
        out_add(&s->c->out, STR("Found:\n"));
        show_found(s);
    }
    struct found *f = choose(s, &code);
    return f != NULL ? use(s, f) : code;
}

int cmd_setup(struct cli *c)
{
    struct setup s = {.c = c};
    int code = set_up(&s);
    arena_fini(&s.arena);
    return code;
}
