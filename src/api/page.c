// Cutting pages out of lists that are short enough to be made whole: bots, skills, trusted places.
//
//     handler ──{"bots": [a, b, c], "next": null}──> page_cut() ──{"bots": [b], "next": "2"}──> face
//                                                    limit=1 cursor=1
//
// The list is the first array of the answer; what stands beside it is the same on every page.

#include "api/page.h"

#include <assert.h>

enum { LONGEST_PAGE = 1000 };

bool page_check(struct op_call *c)
{
    const struct json *limit = json_get(c->params, "limit"),
                      *cursor = json_get(c->params, "cursor");
    uint64_t from;
    if (limit != NULL && (json_int(limit, 0) < 1 || json_int(limit, 0) > LONGEST_PAGE)) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", LONGEST_PAGE);
        return false;
    }
    if (cursor != NULL && !str_to_u64(json_str(cursor, ""), &from)) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "not a cursor of this list");
        return false;
    }
    return true;
}

struct str page_cut(struct op_call *c, struct str whole)
{
    struct json *v;
    const char *next = NULL;
    uint64_t from = 0;
    bool found = false;
    if (json_get(c->params, "limit") == NULL && json_get(c->params, "cursor") == NULL) {
        return whole;
    }
    int rc = json_parse(&v, c->arena, whole, NULL, NULL);
    assert(rc == 0 && v->type == JSON_OBJ); // our own
    str_to_u64(json_str(json_get(c->params, "cursor"), "0"), &from);
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    for (uint32_t i = 0; i < v->n; i++) {
        struct json_member *m = &v->members[i];
        if (!found && m->value.type == JSON_ARR) {
            struct json *list = &m->value;
            uint64_t all = list->n,
                     limit = (uint64_t)json_int(json_get(c->params, "limit"), LONGEST_PAGE);
            from = MIN(from, all);
            list->items += from;
            list->n = (uint32_t)MIN(limit, all - from);
            if (from + list->n < all) {
                next = arena_printf(c->arena, "%llu", (unsigned long long)(from + list->n));
            }
            found = true;
        }
        if (!str_eqz(m->key, "next")) {
            jw_key_str(&w, m->key);
            jw_value(&w, &m->value);
        }
    }
    assert(found);
    jw_kstrz(&w, "next", next);
    jw_end_obj(&w);
    struct str page = arena_str(c->arena, buf_str(&text));
    buf_fini(&text);
    return page;
}
