// Secrets and the token. Values never stand in argv, in a log or in an error; they come from stdin,
// and from a terminal without being shown.

#include <errno.h>
#include <termios.h>
#include <unistd.h>

#include "cli/call.h"
#include "client/interrupt.h"
#include "config/secrets.h"
#include "config/token.h"

// ---- reading a value -----------------------------------------------------------------------

// One line without echo, which is off before we ask: what is typed at once does not show either.
// The terminal is put back whatever happens, Ctrl-C included.
static int read_hidden(const char *name, struct buf *out, struct err *e)
{
    struct termios usual, silent;
    if (tcgetattr(STDIN_FILENO, &usual) < 0) {
        return err_sys(e, "cannot use the terminal");
    }
    silent = usual;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    interrupt_catch();
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    fprintf(stderr, "value of %s (not shown): ", name);
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    int rc = interrupt_wait(&p, 1, 0);
    ssize_t n = 0;
    if (rc > 0) {
        char *room = buf_reserve(out, SECRET_VALUE_MAX);
        n = read(STDIN_FILENO, room, SECRET_VALUE_MAX); // a terminal gives a whole line
        buf_grow(out, n > 0 ? (size_t)n : 0);
    }
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &usual);
    fputc('\n', stderr);
    if (rc < 0) {
        return err_set(e, rc, "interrupted");
    }
    return n < 0 ? err_sys(e, "cannot read the terminal") : 0;
}

static int read_value(struct cli *c, const char *name, struct buf *out, struct err *e)
{
    if (isatty(STDIN_FILENO) != 1) {
        return cli__read_all(STDIN_FILENO, out, e);
    }
    if (args_has(&c->args, FLAG_NO_INPUT)) {
        return err_set(e, ERR_USAGE, "the value comes from stdin: afloat secret set %s < FILE",
                       name);
    }
    return read_hidden(name, out, e);
}

static struct str without_line_end(struct str s)
{
    s.n -= str_ends(s, "\n");
    s.n -= str_ends(s, "\r");
    return s;
}

// ---- secrets -------------------------------------------------------------------------------

int cmd_secret_set(struct cli *c)
{
    const char *name = args_word(&c->args, 0);
    struct buf value;
    struct err e = {0};
    buf_init(&value, 2 * SECRET_VALUE_MAX);
    int rc = read_value(c, name, &value, &e);
    if (rc == 0) {
        rc = home_prepare(&c->home, &e);
    }
    if (rc == 0) {
        rc = secrets_set(c->home.secrets, name, without_line_end(buf_str(&value)), &e);
    }
    if (value.p != NULL) {
        explicit_bzero(value.p, value.cap);
    }
    buf_fini(&value);
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    out_note(&c->out, "secret '%s' is stored", name);
    return EXIT_OK;
}

int cmd_secret_list(struct cli *c)
{
    const struct layout secrets = {"secrets", COLUMNS(COL("NAME", ID, "{}")), "no secrets stored"};
    struct secret_names names = {0};
    struct buf text;
    struct jw w;
    struct err e = {0};
    if (secrets_list(c->home.secrets, &names, &e) < 0) {
        return cli__fail(c, &e);
    }
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    jw_key(&w, "secrets");
    jw_arr(&w);
    for (size_t i = 0; i < names.n; i++) {
        jw_strz(&w, names.p[i]);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    buf_addc(&text, '\n');
    show_local(c, &secrets, buf_str(&text));
    buf_fini(&text);
    secret_names_fini(&names);
    return EXIT_OK;
}

int cmd_secret_remove(struct cli *c)
{
    struct err e = {0};
    if (secrets_remove(c->home.secrets, args_word(&c->args, 0), &e) < 0) {
        return cli__fail(c, &e);
    }
    out_note(&c->out, "secret '%s' is gone", args_word(&c->args, 0));
    return EXIT_OK;
}

// ---- the token -----------------------------------------------------------------------------

int cmd_token_show(struct cli *c)
{
    char token[TOKEN_LEN + 1];
    struct err e = {0};
    int rc = token_read(c->home.token, token, &e);
    if (rc == ERR_NOT_FOUND) {
        out_error(
            &c->out,
            "there is no token yet: it is made when the hub first listens on TCP ('afloat open')");
        return EXIT_NOT_FOUND;
    }
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    out_addf(&c->out, c->json ? "{\"token\":\"%s\"}\n" : "%s\n", token);
    if (c->out.terminal) {
        out_note(&c->out, "keep it secret: whoever has it can do all that you can do here");
    }
    explicit_bzero(token, sizeof token);
    return EXIT_OK;
}

const struct face face_token_rotate = {
    .said = "the token is new; the old one no longer works, and all browsers are logged out"};
