// Print how a run has ended, or that it continues without us: notes to read, and lines to paste.

#include "cli/run_end.h"

#include <assert.h>

#include "cli/show.h"

enum { SHOWN_LOST = 10 };

static int exit_of(struct str reason)
{
    static const struct {
        const char *reason;
        int exit;
    } ends[] = {{"complete", EXIT_OK}, {"limit", EXIT_OK}, {"interrupted", EXIT_INTERRUPTED}};
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
    struct buf out = {.max = SIZE_MAX};
    if (home != NULL) {
        buf_addz(&out, " --home '");
        for (; *home != '\0'; home++) {
            buf_addz(&out, *home == '\'' ? "'\\'" : "");
            buf_addc(&out, *home);
        }
        buf_addc(&out, '\'');
    }
    return buf_take(&out, NULL);
}

static void say_look(struct cli *c, struct str id, const char *home)
{
    out_hint(&c->out, "look: afloat runs diff " STR_FMT "%s", STR_ARG(id), home);
}

static void say_take(struct cli *c, struct str id, const char *home)
{
    out_hint(&c->out, "take: afloat runs apply " STR_FMT "%s", STR_ARG(id), home);
}

static void say_next(struct cli *c, const struct json *r)
{
    struct str id = json_get_text(r, "run_id"), bot = json_get_text(r, "bot");
    char *home = home_words(c);
    bool has_work = json_get_text(r, "branch").n != 0 &&
                    (json_int(json_get(r, "files"), 1) != 0 || json_get_text(r, "rescue").n != 0);
    if (has_work) {
        say_look(c, id, home);
    }
    if (has_work && json_get_text(r, "merged_at").n == 0) {
        say_take(c, id, home);
    }
    if (json_bool(json_get(r, "wants_merge"), false)) {
        out_hint(&c->out, "merge: afloat runs merge " STR_FMT "%s", STR_ARG(id), home);
    }
    if (json_get_text(r, "terminal").n == 0) {
        out_hint(&c->out, "resume: afloat run " STR_FMT " --resume " STR_FMT "%s", STR_ARG(bot),
                 STR_ARG(id), home);
    }
    free(home);
}

void run_end_say_work(struct cli *c, struct str id)
{
    char *home = home_words(c);
    say_look(c, id, home);
    say_take(c, id, home);
    free(home);
}

void run_end_say_detached(struct cli *c, const char *id, const char *bot)
{
    char *home = home_words(c);
    out_note(&c->out, "run %s of %s continues in the hub", id, bot);
    out_hint(&c->out, "follow: afloat runs attach %s%s", id, home);
    out_hint(&c->out, "stop: afloat runs stop %s%s", id, home);
    free(home);
}

// ---- how it went ---------------------------------------------------------------------------

static void say_lost(struct cli *c, const struct json *names)
{
    struct buf out = {.max = SIZE_MAX};
    size_t n = 0;
    json_foreach_item (name, names) {
        if (n++ < SHOWN_LOST) {
            struct str text = json_str(name, "");
            buf_addf(&out, "%s" STR_FMT, n > 1 ? ", " : "", STR_ARG(text));
        }
    }
    if (n > SHOWN_LOST) {
        buf_addf(&out, " and %zu more", n - SHOWN_LOST);
    }
    if (n != 0) {
        out_note(&c->out, "not kept, because git ignores it: %s", buf_z(&out));
    }
    buf_fini(&out);
}

/// `seen` has shown the error of its turn; the record puts a code in front of it.
static void say_how(struct cli *c, const struct json *r, const struct view *seen)
{
    struct str summary = json_get_text(r, "summary"), error = json_get_text(r, "error");
    struct str shown = seen != NULL ? buf_str(&seen->fault) : STR_NULL;
    const struct json *iterations = json_get(r, "iterations"), *commits = json_get(r, "commits");
    struct buf how = {.max = SIZE_MAX};
    show_fill(c, &how,
              "run {run_id} of {bot}: {end_reason}, {action}||run {run_id} of {bot}: {end_reason}",
              r, STR_NULL);
    if (iterations != NULL) {
        show_fill(c, &how, ", {#iterations} iteration{#iterations=1?:s}", r, STR_NULL);
    }
    if (commits != NULL && commits->type == JSON_INT) {
        show_fill(c, &how, ", {commits} commit{commits=1?:s}", r, STR_NULL);
    }
    out_note(&c->out, "%s", buf_z(&how));
    buf_fini(&how);
    if (summary.n != 0 && !str_eq(summary, error)) {
        show_note(c, "summary: {summary}", r);
    }
    if (error.n != 0 && (shown.n == 0 || memmem(error.p, error.n, shown.p, shown.n) == NULL)) {
        out_error(&c->out, STR_FMT, STR_ARG(error));
    }
}

int run_end_say(struct cli *c, const struct json *r, const struct view *seen)
{
    assert(r != NULL);
    if (json_bool(json_get(r, "undone"), false)) {
        show_note(c, "run {run_id} of {bot} was stopped before it began: nothing of it is left", r);
        return EXIT_INTERRUPTED;
    }
    say_how(c, r, seen);
    json_foreach_item (note, json_get(r, "notes")) {
        show_note(c, "{}", note);
    }
    say_lost(c, json_get(r, "not_kept"));
    if (json_get_text(r, "rescue").n != 0) {
        show_note(
            c,
            "some of its work is not on its branch but on '{rescue}'; diff, apply and merge take "
            "both",
            r);
    }
    if (json_get_text(r, "merged_into").n != 0) {
        show_note(c, "merged into '{merged_into}'", r);
    }
    say_next(c, r);
    return exit_of(json_get_text(r, "end_reason"));
}

const struct json *run_end_record(struct cli *c, const char *id, struct arena *arena)
{
    return ask_quietly(c, OP_RUN_SHOW, &(struct ask_param){"id", id}, 1, 0, arena);
}
