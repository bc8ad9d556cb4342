// Answers of tools in short: what a person reads instead of their JSON.

#include "view/brief.h"

#include "base/json.h"

bool brief_report(struct buf *out, struct str text)
{
    struct arena a = {0};
    struct json *v = NULL;
    bool is = text.n != 0 && text.p[0] == '{' && json_parse(&v, &a, text, NULL, NULL) == 0 &&
              json_get(v, "generation") != NULL && json_get(v, "plugins") != NULL;
    if (is) {
        const char *before = ": ";
        buf_addf(out, "generation %lld", (long long)json_int(json_get(v, "generation"), 0));
        json_foreach_item (u, json_get(v, "plugins")) {
            struct str name = json_get_text(u, "name"), state = json_get_text(u, "state");
            buf_addf(out, "%s" STR_FMT " " STR_FMT, before, STR_ARG(name), STR_ARG(state));
            before = ", ";
        }
        json_foreach_item (d, json_get(v, "diagnostics")) {
            struct str code = json_get_text(d, "code"), message = json_get_text(d, "message");
            buf_addf(out, "\n" STR_FMT ": " STR_FMT, STR_ARG(code), STR_ARG(message));
        }
    }
    arena_fini(&a);
    return is;
}
