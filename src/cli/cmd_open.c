// Open the hub in a browser: have it listen, get a one-time address, hand that over.

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/open.h"

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

static void start_browser(struct cli *c, char *url)
{
    char opener[] = "xdg-open";
    char *argv[] = {opener, url, NULL};
    posix_spawn_file_actions_t fa;
    pid_t pid;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&fa, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, STDOUT_FILENO, STDERR_FILENO);
    int rc = posix_spawnp(&pid, opener, &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    if (rc != 0) {
        out_note(&c->out, "cannot start a browser (xdg-open: %s); open the address by hand",
                 err_text(-rc));
    }
}

void open_browser(struct cli *c, const char *url)
{
    bool display = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    bool http = str_starts(str_of(url), "http://") || str_starts(str_of(url), "https://");
    if (display && http && c->out.terminal && !c->json && !c->out.quiet) {
        char *copy = xstrdup(url);
        start_browser(c, copy);
        free(copy);
    }
}

int cmd_open(struct cli *c)
{
    struct arena arena = {0};
    const struct json *v;
    bool ssh = is_set("SSH_CONNECTION");
    char *here = getcwd(NULL, 0); // NULL is well: the page then asks for a directory
    struct ask_param params[] = {{"ssh", ssh ? "true" : NULL}, {"working_dir", here}};
    int code = ask_parsed(c, OP_HUB_OPEN, params, ARRAY_LEN(params), &arena, &v);
    struct str url = json_get_text(v, "url");
    long long port = (long long)json_int(json_get(v, "port"), 0);
    if (v != NULL && !c->json) {
        out_text(&c->out, url);
        out_add(&c->out, STR("\n"));
        out_flush(&c->out);
    }
    if (v != NULL && ssh) {
        // "CLIENT PORT SERVER PORT": the third word is the name we were reached by
        struct str rest = str_of(getenv("SSH_CONNECTION"));
        str_cut(&rest, ' ');
        str_cut(&rest, ' ');
        struct str server = str_cut(&rest, ' ');
        out_note(&c->out, "on your own machine first: ssh -L %lld:127.0.0.1:%lld " STR_FMT, port,
                 port, STR_ARG(server));
    }
    if (v != NULL) {
        open_browser(c, arena_strdup(&arena, url));
    }
    free(here);
    arena_fini(&arena);
    return code;
}
