// Generations: list, show, compare, go back. Features are here too.

#include "cli/report.h"

/// The report names plugins alone: what was chosen by command is in the row of the generation.
static void show_undone(struct cli *c, const struct json *v)
{
    struct arena arena = {0};
    const struct json *all = ask_quietly(c, OP_GENERATIONS, NULL, 0, 0, &arena);
    const struct json *last = json_at(json_get(all, "generations"), 0);
    report_show(c, v);
    json_foreach_item (name, json_get(last, "choices")) {
        out_addf(&c->out, "restored in choices.json: " STR_FMT "\n", STR_ARG(json_str(name, "")));
    }
    arena_fini(&arena);
}

const struct form form_undo = {.print = show_undone, .judge = report_judge};

/// "+a ~b -c =d": what a generation changed; d is something that was chosen by command.
static void add_changes(struct buf *out, const struct json *g)
{
    static const struct {
        const char *key, *sign;
    } kinds[] = {{"added", "+"}, {"changed", "~"}, {"removed", "-"}, {"choices", "="}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_foreach_item (name, json_get(g, kinds[i].key)) {
            buf_addz(out, out->n != 0 ? " " : "");
            buf_addz(out, kinds[i].sign);
            buf_adds(out, json_str(name, ""));
        }
    }
}

const struct form form_generation_list = {
    .layout = {"generations",
               COLUMNS(COL("GENERATION", ID, NULL), COL("AT", TIME, NULL),
                       COL("TRIGGER", WORD, NULL), COL_FN("CHANGES", TEXT, add_changes)),
               "no generations yet"}};

const struct form form_generation_show = {
    .layout = {
        "set",
        COLUMNS(COL("PLUGIN", ID, "{@}"), COL("HASH", DIM, "{hash:12}"), COL("PATH", PATH, NULL)),
        "generation {generation} has no plugins"}};

static void print_line(struct cli *c, enum out_tint tint, const char *sign, struct str name)
{
    out_tinted(&c->out, tint, str_of(sign));
    out_add(&c->out, STR(" "));
    out_text(&c->out, name);
    out_add(&c->out, STR("\n"));
}

static void print_difference(struct cli *c, const struct json *a, const struct json *b)
{
    size_t lines = 0;
    json_foreach_member (old, a) {
        const struct json *new = json_get_str(b, old->key);
        if (new == NULL) {
            print_line(c, OUT_RED, "-", old->key);
            lines++;
        } else if (!str_eq(json_get_text(&old->value, "hash"), json_get_text(new, "hash"))) {
            print_line(c, OUT_YELLOW, "~", old->key);
            lines++;
        }
    }
    json_foreach_member (new, b) {
        if (json_get_str(a, new->key) == NULL) {
            print_line(c, OUT_GREEN, "+", new->key);
            lines++;
        }
    }
    if (lines == 0) {
        out_note(&c->out, "both generations have the same plugins");
    }
}

int cmd_generation_diff(struct cli *c)
{
    struct arena arena = {0};
    const struct json *set[2] = {NULL, NULL};
    int code = EXIT_OK;
    for (size_t i = 0; i < 2 && code == EXIT_OK; i++) {
        struct ask_param params[] = {{"generation", args_word(&c->args, i)}};
        out_add(&c->out, i != 0 && c->json ? STR("\n") : STR("")); // one answer a line
        code = ask_value(c, OP_GENERATION_SHOW, params, ARRAY_LEN(params), &arena, &set[i]);
    }
    if (set[0] != NULL && set[1] != NULL) {
        print_difference(c, json_get(set[0], "set"), json_get(set[1], "set"));
    }
    arena_fini(&arena);
    return code;
}

// ---- features ------------------------------------------------------------------------------

const struct form form_feature_list = {
    .layout = {
        "features",
        COLUMNS(COL("NAME", ID, NULL),
                COL("STATE", STATE, "{enabled?on:off} ({overridden?chosen})||{enabled?on:off}"),
                COL("STAGE", WORD, NULL), COL("DESCRIPTION", TEXT, NULL)),
        NULL}};

const struct form form_feature_enable = {.said = "feature '{$0}' is on"};
const struct form form_feature_disable = {.said = "feature '{$0}' is off"};
