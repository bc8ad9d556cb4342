// Any call of the HTTP API, by hand.

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/sessions.h"
#include "client/interrupt.h"

enum { BODY_MAX = 17 << 20 }; // a little more than the hub takes, so that its refusal can be seen

/// BODY, "-" for stdin, or "@FILE".
static int read_body(struct cli *c, const char *word, struct buf *out)
{
    struct err e = {0};
    bool file = word != NULL && word[0] == '@';
    if (word == NULL || (!file && strcmp(word, "-") != 0)) {
        buf_addz(out, word != NULL ? word : "");
        return EXIT_OK;
    }
    int fd = file ? open(word + 1, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    int rc = fd < 0 ? err_sys(&e, "cannot open '%s'", word + 1) : cli__read_all(fd, out, &e);
    if (fd > STDIN_FILENO) {
        close(fd);
    }
    return rc < 0 ? cli__fail(c, &e) : EXIT_OK;
}

// The hub's TCP address into `out`.
static int find_tcp(struct cli *c, char out[128])
{
    struct arena arena = {0};
    const struct json *health;
    int code = sessions__ask(c, OP_HEALTH, NULL, 0, &arena, &health);
    struct str listen = json_get_text(health, "listen");
    snprintf(out, 128, STR_FMT, STR_ARG(listen));
    if (code == EXIT_OK && listen.n == 0) {
        out_error(&c->out, "the hub does not listen on TCP; 'afloat open' switches it on");
        code = EXIT_FAILED;
    }
    arena_fini(&arena);
    return code;
}

static int on_event(const struct client_event *ev, void *arg)
{
    struct cli *c = arg;
    out_add(&c->out, ev->data);
    out_add(&c->out, STR("\n"));
    return out_flush(&c->out) ? 0 : -EPIPE;
}

static int call(struct cli *c, const struct client_request *r, struct client_answer *a)
{
    char tcp[128] = "";
    bool by_tcp = args_has(&c->args, FLAG_TCP), stream = args_has(&c->args, FLAG_STREAM);
    struct err e = {0};
    int code = by_tcp ? find_tcp(c, tcp) : EXIT_OK, rc = ERR_UNREACHABLE;
    struct client_peer to = {.socket = by_tcp ? NULL : c->home.socket, .tcp = by_tcp ? tcp : NULL};
    for (int i = 0; i < 2 && code == EXIT_OK && rc == ERR_UNREACHABLE; i++) {
        code = i == 0 || by_tcp ? EXIT_OK : ask_ensure_hub(c);
        rc = code == EXIT_OK && !by_tcp ? ask_may_connect(c, &e) : 0;
        if (code == EXIT_OK && rc == 0) {
            rc = stream ? client_stream(&to, r, a, on_event, c, &e) : client_call(&to, r, a, &e);
        }
    }
    if (code != EXIT_OK) {
        return code;
    }
    if (rc < 0) {
        return c->out.fault != 0 ? EXIT_FAILED : cli__fail(c, &e);
    }
    ask_note_build(c, a);
    out_body(&c->out, buf_str(&a->body));
    return ask_exit_of_status(a->status);
}

int cmd_api(struct cli *c)
{
    char method[32] = "";
    struct buf body = {.max = BODY_MAX};
    struct client_answer a;
    vec(const char *) headers = {0};
    bool stream = args_has(&c->args, FLAG_STREAM);
    const char *word = args_word(&c->args, 0);
    for (size_t i = 0; word[i] != '\0' && i < sizeof method - 1; i++) {
        method[i] = (char)toupper((unsigned char)word[i]);
    }
    vec_foreach (f, &c->args.flags) {
        if (f->id == FLAG_HEADER) {
            vec_push(&headers, f->value);
        }
    }
    vec_push(&headers, NULL);
    client_answer_init(&a);
    int code = read_body(c, args_word(&c->args, 2), &body);
    if (code == EXIT_OK) {
        struct client_request r = {.method = method,
                                   .path = args_word(&c->args, 1),
                                   .accept = stream ? "text/event-stream" : NULL,
                                   .headers = headers.p,
                                   .body = buf_str(&body),
                                   .timeout_ms = CLIENT_LONG_MS}; // a turn may be waited for
        if (stream) {
            interrupt_catch();
        }
        code = call(c, &r, &a);
    }
    vec_fini(&headers);
    client_answer_fini(&a);
    buf_fini(&body);
    return code;
}
