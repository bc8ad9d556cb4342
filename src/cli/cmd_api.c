// Any call of the HTTP interface, by hand.

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/watch.h"
#include "client/interrupt.h"

enum { BODY_MAX = 17 << 20 }; // a little more than the hub takes, so that its refusal can be seen

static int read_body(struct cli *c, const char *word, struct buf *out)
{
    struct err e = {0};
    int fd = STDIN_FILENO, rc = 0;
    if (word == NULL) {
        return EXIT_OK;
    }
    if (word[0] == '@') {
        fd = open(word + 1, O_RDONLY | O_CLOEXEC);
        rc = fd < 0 ? err_sys(&e, "cannot open '%s'", word + 1) : 0;
    }
    if (rc == 0 && (word[0] == '@' || strcmp(word, "-") == 0)) {
        rc = cli__read_all(fd, out, &e);
    } else if (rc == 0) {
        buf_addz(out, word);
    }
    if (fd > STDIN_FILENO) {
        close(fd);
    }
    return rc < 0 ? cli__fail(c, &e) : EXIT_OK;
}

// The hub's TCP address into `out`.
static int find_tcp(struct cli *c, char out[128])
{
    struct client_answer a;
    struct arena arena;
    client_answer_init(&a);
    arena_init(&arena);
    int code = ask_request(c, &(struct client_request){.method = "GET", .path = "/healthz"}, &a);
    if (code == EXIT_OK) {
        struct str listen = json_str(json_get(ask_json(c, &arena, &a), "listen"), "");
        snprintf(out, 128, STR_FMT, STR_ARG(listen));
        if (listen.n == 0) {
            out_error(&c->out, "the hub does not listen on TCP; 'afloat open' switches it on");
            code = EXIT_FAILED;
        }
    }
    arena_fini(&arena);
    client_answer_fini(&a);
    return code;
}

static int on_event(const struct client_event *ev, void *arg)
{
    struct cli *c = arg;
    out_add(&c->out, ev->data);
    out_add(&c->out, STR("\n"));
    return out_flush(&c->out) ? 0 : -EPIPE;
}

static int exchange(struct cli *c, const struct client_peer *to, const struct client_request *r,
                    struct client_answer *a, struct err *e)
{
    if (args_has(&c->args, FLAG_STREAM)) {
        return client_stream(to, r, a, on_event, c, e);
    }
    return client_call(to, r, a, e);
}

static int call(struct cli *c, const struct client_request *r, struct client_answer *a)
{
    char tcp[128] = "";
    struct client_peer to = {.socket = c->home.socket};
    struct err e = {0};
    int code = args_has(&c->args, FLAG_TCP) ? find_tcp(c, tcp) : EXIT_OK;
    if (code != EXIT_OK) {
        return code;
    }
    if (args_has(&c->args, FLAG_TCP)) {
        to = (struct client_peer){.tcp = tcp};
    }
    int rc = exchange(c, &to, r, a, &e);
    if (rc == ERR_UNREACHABLE && to.socket != NULL) {
        code = ask_ensure_hub(c);
        if (code != EXIT_OK) {
            return code;
        }
        rc = exchange(c, &to, r, a, &e);
    }
    if (rc < 0) {
        return c->out.fault != 0 ? EXIT_FAILED : cli__fail(c, &e);
    }
    ask_note_build(c, a);
    out_body(&c->out, buf_str(&a->body));
    return ask_exit_of(a);
}

static const char **gather_headers(const struct args *a)
{
    vec(const char *) out = {0};
    for (size_t i = 0; i < a->flags.n; i++) {
        if (a->flags.p[i].id == FLAG_HEADER) {
            vec_push(&out, a->flags.p[i].value);
        }
    }
    vec_push(&out, NULL);
    return out.p;
}

static void upper(char *out, size_t size, const char *word)
{
    size_t n = 0;
    for (; word[n] != '\0' && n < size - 1; n++) {
        out[n] = (char)(word[n] >= 'a' && word[n] <= 'z' ? word[n] - 32 : word[n]);
    }
    out[n] = '\0';
}

int cmd_api(struct cli *c)
{
    char method[32];
    struct buf body;
    struct client_answer a;
    bool stream = args_has(&c->args, FLAG_STREAM);
    upper(method, sizeof method, args_word(&c->args, 0));
    buf_init(&body, BODY_MAX);
    client_answer_init(&a);
    int code = read_body(c, args_word(&c->args, 2), &body);
    if (code == EXIT_OK) {
        const char **headers = gather_headers(&c->args);
        struct client_request r = {.method = method,
                                   .path = args_word(&c->args, 1),
                                   .accept = stream ? "text/event-stream" : NULL,
                                   .headers = headers,
                                   .body = buf_str(&body)};
        if (stream) {
            interrupt_catch();
        }
        code = call(c, &r, &a);
        free(headers);
    }
    client_answer_fini(&a);
    buf_fini(&body);
    return code;
}
