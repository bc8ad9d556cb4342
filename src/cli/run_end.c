// What is said when a run has ended, or goes on without us: notes for the eye, and lines that work when
// they are pasted.

#include "cli/run_int.h"

enum { SHOWN_LOST = 10 };

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

static const struct {
    const char *reason;
    int exit;
} ends[] = {{"complete", EXIT_OK},
            {"limit", EXIT_OK},
            {"interrupted", EXIT_INTERRUPTED},
            {"failed", EXIT_FAILED},
            {"crashed", EXIT_FAILED}};

static int exit_of(struct str reason)
{
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (str_eqz(reason, ends[i].reason)) {
            return ends[i].exit;
        }
    }
    return EXIT_FAILED;
}

// ---- lines to paste ------------------------------------------------------------------------

// A home that was named by a flag has to be named again.
static char *home_words(const struct cli *c)
{
    const char *home = args_value(&c->args, FLAG_HOME);
    struct buf out;
    buf_init(&out, SIZE_MAX);
    if (home != NULL) {
        buf_addz(&out, " --home '");
        for (; *home != '\0'; home++) {
            buf_addz(&out, *home == '\'' ? "'\\'" : "");
            buf_addc(&out, *home);
        }
        buf_addc(&out, '\'');
    }
    char *words = xstrdup(buf_z(&out));
    buf_fini(&out);
    return words;
}

static void say_next(struct cli *c, const struct json *r)
{
    struct str id = text_of(r, "run_id"), bot = text_of(r, "bot");
    char *home = home_words(c);
    bool has_work = text_of(r, "branch").n != 0 &&
                    (json_int(json_get(r, "files"), 1) != 0 || text_of(r, "rescue").n != 0);
    if (has_work) {
        out_hint(&c->out, "look: afloat runs diff " STR_FMT "%s", STR_ARG(id), home);
    }
    if (has_work && text_of(r, "merged_at").n == 0) {
        out_hint(&c->out, "take: afloat runs apply " STR_FMT "%s", STR_ARG(id), home);
    }
    if (json_bool(json_get(r, "wants_merge"), false)) {
        out_hint(&c->out, "merge: afloat runs merge " STR_FMT "%s", STR_ARG(id), home);
    }
    out_hint(&c->out, "resume: afloat run " STR_FMT " --resume " STR_FMT "%s", STR_ARG(bot),
             STR_ARG(id), home);
    free(home);
}

void follow__say_detached(struct cli *c, const char *id, const char *bot)
{
    char *home = home_words(c);
    out_note(&c->out, "run %s of %s goes on in the hub", id, bot);
    out_hint(&c->out, "follow: afloat runs attach %s%s", id, home);
    out_hint(&c->out, "stop: afloat runs stop %s%s", id, home);
    free(home);
}

// ---- how it went ---------------------------------------------------------------------------

static size_t count(const struct json *list)
{
    size_t n = 0;
    while (json_at(list, n) != NULL) {
        n++;
    }
    return n;
}

static void say_lost(struct cli *c, const struct json *names)
{
    struct buf out;
    size_t n = count(names);
    buf_init(&out, SIZE_MAX);
    for (size_t i = 0; i < MIN(n, SHOWN_LOST); i++) {
        struct str name = json_str(json_at(names, i), "");
        buf_addf(&out, "%s" STR_FMT, i != 0 ? ", " : "", STR_ARG(name));
    }
    if (n > SHOWN_LOST) {
        buf_addf(&out, " and %zu more", n - SHOWN_LOST);
    }
    if (n != 0) {
        out_note(&c->out, "not kept, since git ignores it: %s", buf_z(&out));
    }
    buf_fini(&out);
}

/// Was the user told this already? The record puts the code in front of it.
static bool was_told(struct str error, const struct view *seen)
{
    struct str fault = seen != NULL ? buf_str(&seen->fault) : STR_NULL;
    return fault.n != 0 && memmem(error.p, error.n, fault.p, fault.n) != NULL;
}

static void say_how(struct cli *c, const struct json *r, const struct view *seen)
{
    struct str id = text_of(r, "run_id"), bot = text_of(r, "bot");
    struct str reason = text_of(r, "end_reason"), action = text_of(r, "action");
    struct str summary = text_of(r, "summary"), error = text_of(r, "error");
    const struct json *iterations = json_get(r, "iterations"), *commits = json_get(r, "commits");
    struct buf how;
    buf_init(&how, SIZE_MAX);
    buf_addf(&how, "run " STR_FMT " of " STR_FMT ": " STR_FMT, STR_ARG(id), STR_ARG(bot),
             STR_ARG(reason));
    if (action.n != 0) {
        buf_addf(&how, ", " STR_FMT, STR_ARG(action));
    }
    if (iterations != NULL) {
        buf_addf(&how, ", %zu iteration%s", count(iterations), count(iterations) == 1 ? "" : "s");
    }
    if (commits != NULL && commits->type == JSON_INT) {
        buf_addf(&how, ", %lld commit%s", (long long)commits->i, commits->i == 1 ? "" : "s");
    }
    out_note(&c->out, "%s", buf_z(&how));
    if (summary.n != 0 && !str_eq(summary, error)) {
        out_note(&c->out, "summary: " STR_FMT, STR_ARG(summary));
    }
    if (error.n != 0 && !was_told(error, seen)) {
        out_error(&c->out, STR_FMT, STR_ARG(error));
    }
    buf_fini(&how);
}

int follow__say_end(struct cli *c, const struct json *r, const struct view *seen)
{
    struct str rescue = text_of(r, "rescue");
    struct str into = text_of(r, "merged_into"), id = text_of(r, "run_id"), bot = text_of(r, "bot");
    if (json_bool(json_get(r, "undone"), false)) {
        out_note(&c->out,
                 "run " STR_FMT " of " STR_FMT
                 " was stopped before it began: nothing of it is left",
                 STR_ARG(id), STR_ARG(bot));
        return EXIT_INTERRUPTED;
    }
    say_how(c, r, seen);
    json_foreach_item (note, json_get(r, "notes")) {
        struct str text = json_str(note, "");
        out_note(&c->out, STR_FMT, STR_ARG(text));
    }
    say_lost(c, json_get(r, "not_kept"));
    if (rescue.n != 0) {
        out_note(&c->out,
                 "some of its work is not on its branch but on '" STR_FMT
                 "'; diff, apply and merge take both",
                 STR_ARG(rescue));
    }
    if (into.n != 0) {
        out_note(&c->out, "merged into '" STR_FMT "'", STR_ARG(into));
    }
    say_next(c, r);
    return exit_of(text_of(r, "end_reason"));
}

const struct json *follow__record(struct cli *c, const char *id, struct arena *arena)
{
    struct client_peer to = {.socket = c->home.socket};
    struct client_answer a;
    struct json *v = NULL;
    char path[CHAT_ID_MAX + 16];
    snprintf(path, sizeof path, "/runs/%s", id);
    struct client_request r = {.method = "GET", .path = path};
    client_answer_init(&a);
    bool got = client_call(&to, &r, &a, NULL) == 0 && a.status == 200;
    struct str body = arena_str(arena, buf_str(&a.body)); // texts of the value point into it
    if (got && json_parse(&v, arena, body, NULL, NULL) < 0) {
        v = NULL;
    }
    client_answer_fini(&a);
    return v;
}

// ---- merge? --------------------------------------------------------------------------------

int follow__ask_merge(struct run_follow *f)
{
    struct chat *t = f->chat;
    const struct json *v, *record = f->end;
    char question[256], id[CHAT_ID_MAX], into[256];
    struct str branch = text_of(record, "branch"), base = text_of(record, "base_branch");
    if (!t->person || !json_bool(json_get(record, "wants_merge"), false)) {
        return EXIT_OK;
    }
    snprintf(question, sizeof question, "merge " STR_FMT "%s" STR_FMT "? [y/N] ", STR_ARG(branch),
             base.n != 0 ? " into " : "", STR_ARG(base));
    enum chat_line line = chat__ask(t, question);
    struct str answer = str_trim(edit_text(&t->reply));
    if (line != CHAT_LINE || (!str_caseeqz(answer, "y") && !str_caseeqz(answer, "yes"))) {
        return EXIT_OK;
    }
    snprintf(id, sizeof id, STR_FMT, STR_ARG(text_of(record, "run_id")));
    snprintf(into, sizeof into, STR_FMT, STR_ARG(base)); // where it began, as the question says
    char mask[CHAT_UMASK];
    const struct ask_param params[] = {
        {"id", id}, {"umask", chat__umask(mask)}, {"into", into[0] != '\0' ? into : NULL}};
    int code = ask_value(t->c, OP_RUN_MERGE, params, ARRAY_LEN(params), &f->arena, &v);
    f->end = code == EXIT_OK ? v : record;
    return code;
}
