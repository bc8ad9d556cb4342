// Reloads: ask for one and print its report.

#include "cli/report.h"

/// The words as a JSON array; NULL when there are none.
static const char *names_json(struct cli *c, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_arr(&w);
    for (size_t i = 0; i < c->args.words.n; i++) {
        jw_strz(&w, c->args.words.p[i]);
    }
    jw_end_arr(&w);
    return c->args.words.n != 0 ? buf_z(out) : NULL;
}

int cmd_reload(struct cli *c)
{
    struct client_answer a;
    struct arena arena;
    struct buf names;
    client_answer_init(&a);
    arena_init(&arena);
    buf_init(&names, SIZE_MAX);
    struct ask_param params[] = {
        {"names", names_json(c, &names)},
        {"dry_run", args_has(&c->args, FLAG_DRY_RUN) ? "true" : NULL},
        {"force", args_has(&c->args, FLAG_FORCE) ? "true" : NULL},
    };
    int code = ask_op(c, OP_RELOAD, params, ARRAY_LEN(params), &a);
    if (code == EXIT_OK) {
        const struct json *r = ask_json(c, &arena, &a);
        if (r != NULL && !c->json) {
            report_print(&c->out, r);
        }
        bool ok = json_bool(json_get(r, "ok"), false);
        code = r == NULL ? EXIT_FAILED : ok ? EXIT_OK : EXIT_RELOAD;
    }
    buf_fini(&names);
    arena_fini(&arena);
    client_answer_fini(&a);
    return code;
}
