// `afloat chat`: one turn, or a prompt.
//
//     chat TEXT, chat -, something | chat [TEXT]     one turn, then the exit code it ended with
//     chat, on a terminal                            a line, a turn, a line, ...; '/' begins a command
//
// The session lives in the hub. What is here is its view and the person's hand: leaving, or a terminal
// that closes, ends neither.

#include "chat/chat.h"

#include <fcntl.h>
#include <unistd.h>

#include "chat/chat_int.h"
#include "cli/sessions.h"
#include "client/interrupt.h"
#include "pty/tty.h"

// ---- what is said --------------------------------------------------------------------------

// TEXT, followed by the piped input. `*out` stays empty on a terminal without TEXT.
static int gather_text(struct cli *c, struct buf *out)
{
    const char *word = args_word(&c->args, 0);
    bool all = word != NULL && strcmp(word, "-") == 0;
    struct err e = {0};
    if (word != NULL && !all) {
        buf_addz(out, word);
    }
    size_t before = out->n;
    bool closed = (fcntl(STDIN_FILENO, F_GETFL) & O_ACCMODE) == O_WRONLY; // when we were started
    if (!all && (isatty(STDIN_FILENO) == 1 || (before != 0 && closed))) {
        return EXIT_OK;
    }
    if (before != 0) {
        buf_addz(out, "\n\n");
    }
    size_t from = out->n;
    if (cli__read_all(STDIN_FILENO, out, &e) < 0) {
        return cli__fail(c, &e);
    }
    if (out->n == from) {
        buf_cut(out, before);
    }
    if (memchr(buf_z(out), '\0', out->n) != NULL) {
        out_error(&c->out, "the message must be text, but it contains a zero byte");
        return EXIT_USAGE;
    }
    if (str_trim(buf_str(out)).n == 0) {
        out_error(&c->out, "no message: give a TEXT, or pipe one in");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

// ---- the prompt ----------------------------------------------------------------------------

static void greet(struct chat *t)
{
    struct arena arena = {0};
    const struct json *row;
    if (chat__row(t, &arena, &row) == EXIT_OK) {
        struct str provider = json_get_text(row, "provider");
        struct str model = json_get_text(row, "model");
        out_note(&t->c->out, "session %s with " STR_FMT "/" STR_FMT "; /help lists the commands",
                 t->id, STR_ARG(provider), STR_ARG(model));
    }
    arena_fini(&arena);
}

// The chat continues after an answer that failed or was interrupted, and ends when the hub is gone.
static bool stays_after(const struct chat *t, int code)
{
    return code == EXIT_OK || code == EXIT_FAILED || code == EXIT_CONFLICT ||
           (code == EXIT_INTERRUPTED && t->end != NULL);
}

// Take a line that was entered. Returns 0 to continue, else 1 with the exit code in `*code`.
static int take_line(struct chat *t, int *code)
{
    char *line = str_dup(str_trim(edit_text(&t->line)));
    bool stays = true;
    history_add(&t->line, t->history, str_of(line));
    edit_start(&t->line);
    if (line[0] == '/') {
        stays = chat__slash(t, str_of(line));
    } else if (line[0] == '!') {
        chat__shell(t, str_trim(str_of(line + 1)));
    } else if (line[0] != '\0') {
        *code = chat__say(t, str_of(line));
        stays = stays_after(t, *code);
    }
    if (stays) {
        *code = EXIT_OK;
    }
    free(line);
    return !stays;
}

static int prompt(struct chat *t)
{
    int code = EXIT_OK;
    bool warned = false; // Ctrl-C came on an empty line
    for (bool ended = false; !ended;) {
        if (t->joins) {
            t->joins = false;
            code = chat__follow(t);
            ended = !stays_after(t, code);
            continue;
        }
        enum chat_line line = chat__read_line(t);
        if (line == CHAT_ELSEWHERE) {
            continue;
        }
        bool empty = edit_text(&t->line).n == 0;
        bool twice = line == CHAT_INTERRUPTED && warned && empty;
        if (line == CHAT_INTERRUPTED && !twice) {
            warned = empty;
            edit_start(&t->line);
            out_note(&t->c->out, empty ? "Ctrl-C again leaves" : "input discarded");
        } else if (line == CHAT_LINE) {
            warned = false;
            ended = take_line(t, &code) != 0;
        } else {
            ended = true;
            code = line == CHAT_LEFT ? EXIT_OK : EXIT_INTERRUPTED;
        }
        ended = ended || t->c->out.fault != 0;
    }
    return chat__is_gone(t) ? EXIT_INTERRUPTED : code;
}

// ---- the command ---------------------------------------------------------------------------

static bool is_format(const struct cli *c, const char *name)
{
    const char *format = args_value(&c->args, FLAG_FORMAT);
    return format != NULL && strcmp(format, name) == 0;
}

// The value goes into JSON as it is typed, so it must be a number that JSON knows, above 0.
static bool check_number(struct cli *c, enum flag_id flag, bool whole)
{
    const char *value = args_value(&c->args, flag);
    struct arena arena = {0};
    struct json *v = NULL;
    bool ok = value == NULL || (json_parse(&v, &arena, str_of(value), NULL, NULL) == 0 &&
                                (v->type == JSON_INT || (!whole && v->type == JSON_DOUBLE)) &&
                                json_double(v, 0) > 0);
    if (!ok) {
        out_error(&c->out, "'--%s' takes a%s number above 0, not '%s'", flags[flag].name,
                  whole ? " whole" : "", value);
    }
    arena_fini(&arena);
    return ok;
}

static int check_flags(struct cli *c)
{
    if (args_has(&c->args, FLAG_PLUGINS) && args_has(&c->args, FLAG_NO_PLUGINS)) {
        out_error(&c->out, "'--plugins' and '--no-plugins' exclude each other");
        return EXIT_USAGE;
    }
    if (args_has(&c->args, FLAG_CONTINUE) && args_has(&c->args, FLAG_RESUME)) {
        out_error(&c->out, "'--continue' and '--resume' exclude each other");
        return EXIT_USAGE;
    }
    return check_number(c, FLAG_MAX_STEPS, true) && check_number(c, FLAG_MAX_COST, false)
               ? EXIT_OK
               : EXIT_USAGE;
}

/// Is there a user at the terminal whom we may ask?
static bool is_person(const struct cli *c)
{
    return tty_in_foreground(STDIN_FILENO) && c->out.terminal && !c->json &&
           !args_has(&c->args, FLAG_NO_INPUT) && !args_has(&c->args, FLAG_PRINT) &&
           args_value(&c->args, FLAG_FORMAT) == NULL;
}

static bool can_draw(const struct out *o)
{
    const char *term = getenv("TERM");
    return o->terminal && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

int chat__with(struct cli *c, bool typing, chat_body *body, void *arg)
{
    struct chat t = {.c = c};
    bool json = c->json || is_format(c, "stream-json");
    t.whole = is_format(c, "json");
    t.prints = t.whole || args_has(&c->args, FLAG_PRINT);
    t.drawable = can_draw(&c->out) && !json && !t.prints;
    t.person = is_person(c);
    c->json = false; // events are printed by the view, other answers are not data
    view_init(&t.view, json ? VIEW_JSON : t.drawable ? VIEW_LIVE : VIEW_PLAIN, &c->out);
    t.view.last_only = t.prints;
    chat__person_init(&t, typing);
    interrupt_catch();
    chat__screen_begin(&t);
    int code = body(&t, arg);
    view_settle(&t.view);
    chat__screen_end(&t);
    chat__person_fini(&t);
    arena_fini(&t.asked_in);
    view_fini(&t.view);
    return code;
}

// The first message: TEXT and piped input, or else the prompt of the session type.
struct said {
    struct buf text, prompt;
};

static int talk(struct chat *t, void *arg)
{
    const struct said *s = arg;
    struct str text = buf_str(&s->text);
    const char *cwd = args_value(&t->c->args, FLAG_CWD);
    int code = chat__open(t);
    if (code == EXIT_OK) {
        chat__announce_untrusted(t->c, cwd != NULL ? cwd : ".", args_has(&t->c->args, FLAG_BOT));
        chat__tell_faults(t->c);
    }
    if (code != EXIT_OK || text.n != 0) {
        return code != EXIT_OK ? code : chat__say(t, text);
    }
    free(t->history);
    t->history = history_path(t->c->home.dir, cwd != NULL ? cwd : ".");
    history_load(&t->line, t->history);
    greet(t);
    chat__news_begin(t);
    if (s->prompt.n != 0) {
        code = chat__say(t, buf_str(&s->prompt));
    }
    return code == EXIT_OK ? prompt(t) : code;
}

// The prompt of the session type that is named.
static int read_prompt(struct cli *c, struct buf *out)
{
    const char *cwd = args_value(&c->args, FLAG_CWD), *type = args_value(&c->args, FLAG_TYPE);
    char *real = realpath(cwd != NULL ? cwd : ".", NULL);
    const struct ask_param params[] = {{"type", type}, {"path", real}};
    const struct json *v = NULL;
    struct arena arena = {0};
    int code = ask_value(c, OP_SESSION_TYPE_SHOW, params, real != NULL ? 2 : 1, &arena, &v);
    if (code == EXIT_OK) {
        buf_adds(out, json_get_text(json_get(v, "values"), "prompt"));
    }
    arena_fini(&arena);
    free(real);
    return code;
}

int chat_main(struct cli *c)
{
    struct said s;
    buf_init(&s.text, CHAT_TEXT_MAX);
    buf_init(&s.prompt, CHAT_TEXT_MAX);
    int code = check_flags(c);
    if (code == EXIT_OK && args_has(&c->args, FLAG_TYPE)) {
        code = read_prompt(c, &s.prompt);
    }
    if (code == EXIT_OK && (args_word(&c->args, 0) != NULL || s.prompt.n == 0)) {
        code = gather_text(c, &s.text);
    }
    if (code == EXIT_OK && s.text.n == 0 && !is_person(c)) {
        buf_adds(&s.text, buf_str(&s.prompt));
    }
    if (code == EXIT_OK && s.text.n == 0 && !is_person(c)) {
        out_error(&c->out, "nothing to say: give a TEXT, or pipe one in");
        code = EXIT_USAGE;
    }
    if (code == EXIT_OK) {
        code = chat__with(c, s.text.n == 0, talk, &s);
    }
    buf_fini(&s.text);
    buf_fini(&s.prompt);
    return code;
}

static int watch(struct chat *t, void *arg)
{
    const char *given = arg;
    int code = sessions__resolve(t->c, given, t->id, sizeof t->id);
    if (code == EXIT_OK) {
        chat__refresh(t);
    }
    t->view.echo = true;
    return code == EXIT_OK ? chat__follow(t) : code;
}

int chat_attach(struct cli *c)
{
    char *given = xstrdup(args_word(&c->args, 0));
    int code = chat__with(c, true, watch, given);
    free(given);
    return code;
}
