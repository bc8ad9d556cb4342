// MCP servers as the hub sees them.

#include <errno.h>

#include "base/url.h"
#include "bridge/bridge.h"
#include "cli/call.h"
#include "cli/open.h"
#include "client/travel.h"
#include "config/config.h"
#include "config/secrets.h"
#include "net/http1.h"
#include "net/http_client.h"
#include "oauth/oauth.h"

const struct form form_mcp_list = {
    .layout = {
        "servers",
        COLUMNS(COL("NAME", ID, NULL), COL("STATE", STATE, NULL), COL("TOOLS", WORD, "{#tools}"),
                COL("PROJECT", PATH, NULL), COL("ERROR", LONG, NULL)),
        "no MCP servers yet; add a table [mcp.NAME] with a 'command' or a 'url' to config.toml"}};

static void print_offers(struct cli *c, const struct json *v)
{
    static const struct {
        const char *member, *head;
    } lists[] = {{"tools", "TOOL"}, {"prompts", "PROMPT"}};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct column columns[] = {
            COL(lists[i].head, ID, "{name}"),
            COL("DESCRIPTION", TEXT, "{changed?(changed) :}{description}"),
            {NULL, NULL, CELL_TEXT, NULL}};
        const struct json *rows = json_get(v, lists[i].member);
        if (json_at(rows, 0) != NULL) {
            show_rows(c, columns, rows);
        }
    }
}

const struct form form_mcp_show = {
    .layout = {NULL,
               COLUMNS(COL("name", ID, NULL), COL("state", STATE, NULL), COL("error", LONG, NULL),
                       COL("server", TEXT, NULL), COL("protocol", TEXT, NULL),
                       COL("command", TEXT, NULL), COL("url", TEXT, NULL),
                       COL("project", PATH, NULL), COL("sandbox", TEXT, NULL),
                       COL("pid", TEXT, NULL), COL("stderr", LONG, NULL)),
               NULL},
    .print = print_offers};

static void print_test(struct cli *c, const struct json *v)
{
    if (json_bool(json_get(v, "ok"), false)) {
        show_line(
            c, OUT_PLAIN, NULL,
            "{server}: {#tools} tools, {#prompts} prompts, revision {protocol}, {duration_ms} ms",
            v, STR_NULL);
    }
}

static int judge_test(struct cli *c, const struct json *v)
{
    struct str error = json_get_text(v, "error");
    if (json_bool(json_get(v, "ok"), false)) {
        return EXIT_OK;
    }
    out_error(&c->out, "the server failed: " STR_FMT, STR_ARG(error));
    return EXIT_FAILED;
}

const struct form form_mcp_test = {.print = print_test, .judge = judge_test};

// ---- serve ----------------------------------------------------------------------------------------

/// The header that names the project of `dir`. NULL: there is no
/// such directory.
static char *project_header(const char *dir)
{
    char *real = realpath(dir, NULL);
    struct buf out = {.max = SIZE_MAX};
    if (real == NULL) {
        return NULL;
    }
    buf_addz(&out, "Afloat-Project: ");
    url_encode(&out, str_of(real));
    buf_addz(&out, "\r\n");
    free(real);
    char *header = buf_take(&out, NULL);
    buf_fini(&out);
    return header;
}

/// Find the hub, or the address that the engine names, and the header that every request has to bring; the caller
/// frees it.
static int find_hub(struct cli *c, const char **address, char **header)
{
    static const char scheme[] = "http://";
    const char *dir = args_value(&c->args, FLAG_IN_PROJECT);
    const char *url = getenv("AFLOAT_MCP_URL"), *key = getenv("AFLOAT_MCP_KEY");
    if (url != NULL && key != NULL) {
        if (!str_starts(str_of(url), scheme) || !http1_is_value(str_of(key))) {
            out_error(&c->out, "AFLOAT_MCP_URL must be http://HOST:PORT, and AFLOAT_MCP_KEY a key");
            return EXIT_USAGE;
        }
        *address = url + strlen(scheme);
        *header = xasprintf("Authorization: Bearer %s\r\n", key);
        return EXIT_OK;
    }
    *address = c->home.socket;
    *header = project_header(dir != NULL ? dir : ".");
    if (*header == NULL) {
        int code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
        out_error(&c->out, "cannot use the directory '%s': %s", dir != NULL ? dir : ".",
                  err_text(-errno));
        return code;
    }
    return ask_ensure_hub(c);
}

int cmd_mcp_serve(struct cli *c)
{
    const char *address;
    char *header = NULL;
    int code = find_hub(c, &address, &header);
    if (code == EXIT_OK) {
        code = bridge_run(address, header) < 0 ? EXIT_FAILED : EXIT_OK;
    }
    free(header);
    return code;
}

// ---- login ----------------------------------------------------------------------------------------

struct login {
    struct cli *c;
    struct loop loop;
    const char *secret;
    int code;
};

static void show_address(void *arg, const char *address)
{
    struct login *l = arg;
    out_note(&l->c->out, "open this address in a browser on this machine:");
    out_add(&l->c->out, str_of(address));
    out_add(&l->c->out, STR("\n"));
    out_flush(&l->c->out);
    open_browser(l->c, address);
}

static void on_login(void *arg, const struct oauth_token *t, const struct err *why)
{
    struct login *l = arg;
    struct buf text = {.max = SIZE_MAX};
    struct err e = {0};
    if (t == NULL) {
        e = *why;
    } else {
        oauth_token_write(t, &text);
        e.code = secrets_set(l->c->home.secrets, l->secret, buf_str(&text), &e);
        explicit_bzero(text.p, text.n);
    }
    l->code = e.code < 0 ? cli__fail(l->c, &e) : EXIT_OK;
    l->code = l->code == EXIT_UNREACHABLE ? EXIT_FAILED : l->code; // it is not the hub
    buf_fini(&text);
    loop_stop(&l->loop);
}

/// The address of [mcp.NAME]; the caller frees it. NULL: said why not, with the exit code in `*code`.
static char *find_url(struct cli *c, const char *name, int *code)
{
    struct err e = {0};
    struct config *config = travel_config(&c->home, false, &e);
    if (config == NULL) {
        *code = cli__fail(c, &e);
        return NULL;
    }
    const struct config_entry *it = config_find_named(config, "mcp.*.url", name);
    char *url = it != NULL ? str_dup(json_str(it->value, "")) : NULL;
    const char *broken = config_left_out(config);
    if (url == NULL && broken != NULL) {
        out_error(&c->out, "'%s' is broken; 'afloat config show' names the error", broken);
        *code = EXIT_FAILED;
    } else if (url == NULL) {
        out_error(&c->out, "config.toml has no [mcp.%s] with a 'url'", name);
        *code = EXIT_NOT_FOUND;
    }
    config_free(config);
    return url;
}

int cmd_mcp_login(struct cli *c)
{
    const char *name = args_word(&c->args, 0);
    char *secret = oauth_secret_name(name);
    struct login l = {.c = c, .secret = secret, .code = EXIT_FAILED};
    char *url = find_url(c, name, &l.code);
    struct err e = {0};
    if (url != NULL && loop_init(&l.loop, NULL, &e) == 0) {
        struct http_client *http = http_client_open(&l.loop, "afloat");
        struct oauth_opts o = {.loop = &l.loop,
                               .http = http,
                               .url = url,
                               .show = show_address,
                               .done = on_login,
                               .arg = &l};
        (void)oauth_login(&o);
        loop_run(&l.loop);
        http_client_close(http);
        while (loop_run_once(&l.loop, false)) {
        }
        (void)!loop_close(&l.loop, NULL);
    }
    if (l.code == EXIT_OK) {
        out_note(&c->out, "logged in to '%s'", name);
        struct arena arena = {0}; // a hub that runs takes the login at once
        const char *names = arena_printf(&arena, "[\"mcp:%s\"]", name);
        const struct ask_param params[] = {{"names", names}, {"force", "true"}};
        ask_quietly(c, OP_RELOAD, params, ARRAY_LEN(params), 0, &arena);
        arena_fini(&arena);
    }
    free(url);
    free(secret);
    return l.code;
}
