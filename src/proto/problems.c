// The table of problems and its one writer.

#include "proto/problems.h"

#include "base/redact.h"

const struct problem_info problems[PROBLEM__COUNT] = {
#define PROBLEM(c, st, ex, ti)                                                                     \
    [PROBLEM_##c] = {.code = #c, .status = st, .exit_code = ex, .title = ti},
#include "proto/problems.def"
#undef PROBLEM
};

void problem_write(struct buf *out, enum problem p, struct str detail, const char *hint)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "type", "about:blank");
    jw_kstrz(&w, "title", problems[p].title);
    jw_kint(&w, "status", problems[p].status);
    jw_kstrz(&w, "code", problems[p].code);
    redact_member(&w, "detail", detail); // it may hold what a plugin or a program said
    if (hint != NULL) {
        jw_kstrz(&w, "hint", hint);
    }
    jw_end_obj(&w);
}

const struct problem_info *problem_find(struct str code)
{
    for (size_t i = 0; i < PROBLEM__COUNT; i++) {
        if (str_eqz(code, problems[i].code)) {
            return &problems[i];
        }
    }
    return NULL;
}
