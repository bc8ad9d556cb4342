// Skills: what bots are taught, in Markdown. Without --bot those of all bots.

#include "cli/bots.h"
#include "cli/view.h"

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

static void add_skill(const struct json *row, void *arg)
{
    struct table *t = arg;
    table_add(t, OUT_BOLD, text_of(row, "name"));
    table_add(t, OUT_DIM, text_of(row, "source"));
    table_add(t, OUT_PLAIN, text_of(row, "description"));
}

int cmd_skill_list(struct cli *c)
{
    struct table t;
    table_init(&t, 3);
    int code = bots__each(c, NULL, 0, "skills", add_skill, &t);
    table_print(&t, &c->out);
    if (code == EXIT_OK && !c->json && t.cells.n == 0) {
        out_note(&c->out, "there are none yet: 'afloat skills save NAME FILE' makes one");
    }
    table_fini(&t);
    return code;
}

int cmd_skill_show(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {{"name", args_word(&c->args, 0)}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        struct str about = text_of(v, "description"), path = text_of(v, "path");
        out_note(&c->out, STR_FMT "%s" STR_FMT, STR_ARG(path), about.n != 0 ? ": " : "",
                 STR_ARG(about));
        view_text(&c->out, text_of(v, "body"));
    }
    arena_fini(&arena);
    return code;
}

int cmd_skill_save(struct cli *c)
{
    struct arena arena;
    struct buf text;
    const struct json *v;
    const char *name = args_word(&c->args, 0);
    arena_init(&arena);
    buf_init(&text, BOTS_TEXT_MAX);
    int code = bots__read_text(c, args_word(&c->args, 1), &text);
    if (code == EXIT_OK) {
        const struct ask_param params[] = {{"name", name},
                                           {"description", args_value(&c->args, FLAG_DESCRIPTION)},
                                           {"body", buf_z(&text)}};
        code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    }
    if (code == EXIT_OK) {
        out_note(&c->out, "skill '%s' is saved; bots have it from their next iteration on", name);
    }
    buf_fini(&text);
    arena_fini(&arena);
    return code;
}

int cmd_skill_remove(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {{"name", args_word(&c->args, 0)}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    if (code == EXIT_OK) {
        out_note(&c->out, "skill '%s' is in the trash", args_word(&c->args, 0));
    }
    arena_fini(&arena);
    return code;
}
