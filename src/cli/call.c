// Run a command that is a row of the table: gather the parameters of its operation, ask the hub, show
// the answer.

#include "cli/call.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/sessions.h"
#include "client/travel.h"
#include "view/view.h"

enum { PARAMS = 24, TEXT_MAX = 16 << 20 };

/// The parameters of one call. Names and values live in the arena or are borrowed for longer.
struct call {
    struct cli *c;
    const struct form *form;
    const struct op *op;
    struct arena arena;
    struct ask_param params[PARAMS];
    size_t n;
    const char *cursor; // of the next page; NULL for the first
    bool lost;          // the current directory, which it would have named, is gone
};

// ---- texts ---------------------------------------------------------------------------------

int call_read_text(struct cli *c, const char *file, struct buf *out)
{
    struct err e = {0};
    bool piped = file == NULL || strcmp(file, "-") == 0;
    if (file == NULL && isatty(STDIN_FILENO) == 1) {
        out_error(&c->out, "no text given: name a FILE, or pipe the text to stdin");
        return EXIT_USAGE;
    }
    int fd = piped ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
        out_error(&c->out, "cannot open '%s': %s", file, err_text(-errno));
        return code;
    }
    int rc = cli__read_all(fd, out, &e);
    if (!piped) {
        close(fd);
    }
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    if (!utf8_valid(buf_str(out)) || strlen(buf_z(out)) != out->n) {
        out_error(&c->out, "the input must be text in UTF-8");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/// Text of FILE or stdin into the arena.
static int read_into(struct call *k, const char *file, const char **out)
{
    struct buf text = {.max = TEXT_MAX};
    int code = call_read_text(k->c, file, &text);
    *out = arena_strdup(&k->arena, buf_str(&text));
    buf_fini(&text);
    return code;
}

static int make_absolute(struct call *k, const char *path, const char **out)
{
    char *found = realpath(path, NULL);
    if (found == NULL) {
        out_error(&k->c->out, "cannot find '%s': %s", path, err_text(-errno));
        return EXIT_NOT_FOUND;
    }
    *out = arena_strdup(&k->arena, str_of(found));
    free(found);
    return EXIT_OK;
}

// ---- words ---------------------------------------------------------------------------------

/// Argument `i` of the command as its row spells it: "NAME", "FILE|-", "NAME...".
static struct str argument(const struct command *row, size_t i)
{
    struct str rest = str_of(row->args), word = str_cut(&rest, ' ');
    for (; i > 0; i--) {
        word = str_cut(&rest, ' ');
    }
    if (str_starts(word, "[")) {
        word = (struct str){word.p + 1, word.n - 2};
    }
    return word;
}

/// Is argument `i` the parameter `p`, which is number `in_path` of those in the path, or -1?
static bool names_param(const struct call *k, size_t i, const struct op_param *p, int in_path)
{
    struct str rest = str_of(k->form->words), own = {0};
    if (k->form->words != NULL) {
        for (size_t j = 0; j <= i; j++) {
            own = str_cut(&rest, ' ');
        }
        return str_eq(own, p->name);
    }
    if (in_path >= 0) {
        return (size_t)in_path == i;
    }
    struct str spelled = argument(k->c->cmd, i);
    own = str_cut(&spelled, '|');
    return own.n == p->name.n && strncasecmp(own.p, p->name.p, own.n) == 0;
}

static const char *rest_as_json(struct call *k, size_t from)
{
    assert(from <= k->c->args.words.n);
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_arr(&w);
    for (size_t i = from; i < k->c->args.words.n; i++) {
        jw_strz(&w, k->c->args.words.p[i]);
    }
    jw_end_arr(&w);
    const char *out = arena_strdup(&k->arena, buf_str(&text));
    buf_fini(&text);
    return out;
}

/// The value of argument `i`; NULL when it was not given.
static int take_word(struct call *k, size_t i, const char **out)
{
    struct str spelled = argument(k->c->cmd, i);
    const char *word = args_word(&k->c->args, i);
    bool file = str_starts(spelled, "FILE");
    *out = word;
    if (file || (word != NULL && strcmp(word, "-") == 0 && str_ends(spelled, "|-"))) {
        return read_into(k, word, out);
    }
    if (word == NULL) {
        return EXIT_OK;
    }
    if (str_ends(spelled, "...")) {
        *out = rest_as_json(k, i);
    } else if (str_eqz(spelled, "DIR") || str_eqz(spelled, "PATH") ||
               (str_eqz(spelled, "PATH|NAME") &&
                (strchr(word, '/') != NULL || access(word, F_OK) == 0))) {
        return make_absolute(k, word, out);
    } else if (i == 0 && k->form->session) {
        char id[SESSION_ID_MAX];
        int code = sessions__resolve(k->c, word, id, sizeof id);
        *out = code == EXIT_OK ? arena_strdup(&k->arena, str_of(id)) : NULL;
        return code;
    }
    return EXIT_OK;
}

// ---- flags ---------------------------------------------------------------------------------

/// Flags whose parameter has another name.
static const struct {
    enum flag_id flag;
    const char *param;
} renamed[] = {
    {FLAG_ITERATIONS, "max_iterations"}, {FLAG_SLEEP, "sleep_secs"}, {FLAG_CWD, "working_dir"}};

static bool is_same_name(const char *flag, struct str param)
{
    size_t i = 0;
    while (i < param.n && flag[i] != '\0' &&
           (flag[i] == param.p[i] || (flag[i] == '-' && param.p[i] == '_'))) {
        i++;
    }
    return i == param.n && flag[i] == '\0';
}

static bool is_flag_of(enum flag_id id, struct str param)
{
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++) {
        if (renamed[i].flag == id && str_eqz(param, renamed[i].param)) {
            return true;
        }
    }
    const char *name = flags[id].name;
    bool negates = flags[id].value == NULL && strncmp(name, "no-", 3) == 0;
    return is_same_name(name, param) || (negates && is_same_name(name + 3, param));
}

/// The value that a flag gives the parameter; NULL when no flag does.
static int take_flag(struct call *k, struct str param, const char **out)
{
    vec_foreach (g, &k->c->args.flags) {
        if (flags[g->id].global || !is_flag_of(g->id, param)) {
            continue;
        }
        *out = g->value != NULL                            ? g->value
               : strncmp(flags[g->id].name, "no-", 3) == 0 ? "false"
                                                           : "true";
        if (g->id == FLAG_CWD) {
            return make_absolute(k, g->value, out);
        }
    }
    return EXIT_OK;
}

// ---- parameters ----------------------------------------------------------------------------

/// What a parameter is when neither a flag nor a word gives it.
static const char *usual_value(struct call *k, struct str param)
{
    const struct form *f = k->form;
    if (f->fixed != NULL && str_eqz(param, f->fixed)) {
        return f->fixed_value;
    }
    if ((str_eqz(param, "working_dir") && !f->anywhere) ||
        (f->here != NULL && str_eqz(param, f->here))) {
        char *here = getcwd(NULL, 0);
        k->lost = here == NULL;
        const char *kept = here != NULL ? arena_strdup(&k->arena, str_of(here)) : NULL;
        free(here);
        return kept;
    }
    if (str_eqz(param, "umask")) {
        char mask[TRAVEL_UMASK];
        return arena_strdup(&k->arena, str_of(travel_umask(mask)));
    }
    if (str_eqz(param, "limit") && strstr(k->op->params, "cursor:") != NULL && !k->c->json) {
        return "100";
    }
    return NULL;
}

static int gather(struct call *k)
{
    struct str rest = str_of(k->op->params);
    struct op_param p;
    size_t n_arguments, least;
    int in_path = 0, code = EXIT_OK;
    command_count_args(k->c->cmd, &least, &n_arguments);
    n_arguments = MIN(n_arguments, (size_t)8);
    while (code == EXIT_OK && op_next_param(k->op, &rest, &p)) {
        const char *value = NULL;
        code = take_flag(k, p.name, &value);
        for (size_t i = 0; i < n_arguments && code == EXIT_OK && value == NULL; i++) {
            if (names_param(k, i, &p, p.in_path ? in_path : -1)) {
                code = take_word(k, i, &value);
                break;
            }
        }
        in_path += p.in_path;
        value = value != NULL ? value : usual_value(k, p.name);
        assert(k->n < PARAMS - 1);
        k->params[k->n++] =
            (struct ask_param){.name = arena_strdup(&k->arena, p.name), .value = value};
    }
    return code;
}

// ---- asking --------------------------------------------------------------------------------

/// One request, for the page at `cursor`.
static int ask(struct call *k, const struct json **out)
{
    assert(k->n < PARAMS);
    k->params[k->n] = (struct ask_param){"cursor", k->cursor};
    return ask_parsed(k->c, (enum op_id)(k->op - ops), k->params, k->n + 1, &k->arena, out);
}

/// The rows of all pages as one table.
static int show_pages(struct call *k, const struct json *v)
{
    const struct layout *l = &k->form->layout;
    assert(l->columns != NULL);
    struct table t;
    int code = EXIT_OK;
    show_begin(&t, l->columns);
    while (v != NULL) {
        show_add(k->c, &t, l->columns, json_get(v, l->rows));
        show_diagnostics(k->c, v);
        struct str next = json_get_text(v, "next");
        k->cursor = arena_strdup(&k->arena, next);
        const struct json *page = NULL;
        code = next.n != 0 ? ask(k, &page) : EXIT_OK;
        if (page == NULL && t.cells.n == 0) {
            show_note(k->c, l->empty, v);
        }
        v = page;
    }
    table_print(&t, &k->c->out);
    table_fini(&t);
    return code;
}

static int show(struct call *k, const struct json *v)
{
    const struct form *f = k->form;
    int code = EXIT_OK;
    if (f->layout.rows != NULL) {
        code = show_pages(k, v);
    } else if (f->layout.columns != NULL ||
               (f->text == NULL && f->said == NULL && f->print == NULL)) {
        show_answer(k->c, &f->layout, v);
    }
    if (f->text != NULL) {
        struct buf text = {.max = SIZE_MAX};
        show_fill(k->c, &text, f->text, v, STR_NULL);
        view_text(&k->c->out, buf_str(&text));
        buf_fini(&text);
    }
    if (f->print != NULL) {
        f->print(k->c, v);
    } else if (f->layout.rows == NULL) {
        show_diagnostics(k->c, v);
    }
    show_note(k->c, f->said, v);
    return code;
}

int call_with(struct cli *c, enum op_id op, const struct form *f)
{
    assert(op < OP__COUNT && f != NULL);
    struct call k = {.c = c, .form = f, .op = &ops[op]};
    const struct json *v = NULL;
    int code = gather(&k);
    if (code == EXIT_OK) {
        code = ask(&k, &v);
    }
    if (code != EXIT_OK && k.lost) {
        out_error(&c->out, "the current directory is gone; go to one that exists");
    }
    if (code == EXIT_OK && !c->json) {
        code = show(&k, v);
    }
    if (code == EXIT_OK && f->judge != NULL) {
        code = f->judge(c, v);
    }
    arena_fini(&k.arena);
    return code;
}

int call_run(struct cli *c)
{
    assert(c->cmd->op >= 0 && c->cmd->form != NULL);
    return call_with(c, (enum op_id)c->cmd->op, c->cmd->form);
}
