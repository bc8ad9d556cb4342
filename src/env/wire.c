// The provider's side channel.
//
// Providers print to a terminal, and so do the build tools that they run, so their output can never carry an
// answer. Descriptor 3 is theirs alone. Its text is still untrusted: bounded, parsed strictly, checked for
// shape, and only used as data.
//
// An answer replaces the one before it; inputs only add up.

#include "env/wire.h"

#include <assert.h>

#include "base/json.h"
#include "env/result.h"

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_PARSE, "the provider's answer is invalid: %s", what);
}

// A copy without NUL; false when it holds one.
static bool text_of(struct arena *a, const struct json *v, const char **out)
{
    if (v->type != JSON_STR || memchr(v->s.p != NULL ? v->s.p : "", '\0', v->s.n) != NULL) {
        return false;
    }
    *out = arena_strdup(a, v->s);
    return true;
}

static bool takes(struct str name)
{
    return env_name_ok(name) && env_name_is_free(name);
}

static int read_set(struct env_result *r, const struct json *doc, struct err *e)
{
    const struct json *set = json_get(doc, "set");
    if (set != NULL && set->type != JSON_OBJ) {
        return bad(e, "'set' is not an object");
    }
    json_foreach_member (m, set) {
        struct env_var v = {.name = arena_strdup(&r->arena, m->key)};
        if (!text_of(&r->arena, &m->value, &v.value)) {
            return bad(e, "a value of 'set' is not a string");
        }
        if (takes(m->key)) {
            vec_push(&r->set, v);
        }
    }
    return 0;
}

static int read_unset(struct env_result *r, const struct json *doc, struct err *e)
{
    const struct json *unset = json_get(doc, "unset");
    if (unset != NULL && unset->type != JSON_ARR) {
        return bad(e, "'unset' is not a list");
    }
    json_foreach_item (it, unset) {
        const char *name;
        if (!text_of(&r->arena, it, &name)) {
            return bad(e, "a name in 'unset' is not a string");
        }
        if (takes(it->s)) {
            vec_push(&r->unset, name);
        }
    }
    return 0;
}

static int read_list(struct env_result *r, const struct json_member *m, struct env_list *l,
                     struct err *e)
{
    if (m->value.type != JSON_ARR) {
        return bad(e, "'prepend' and 'append' hold lists");
    }
    l->name = arena_strdup(&r->arena, m->key);
    l->items = arena_calloc(&r->arena, m->value.n + 1, sizeof *l->items);
    json_foreach_item (it, &m->value) {
        const char *item;
        if (!text_of(&r->arena, it, &item) || item[0] == '\0' || strchr(item, ':') != NULL) {
            return bad(e, "an element of a list is empty, contains a colon or is not a string");
        }
        l->items[l->n++] = item;
    }
    return 0;
}

static int read_lists(struct env_result *r, const struct json *doc, bool front, struct err *e)
{
    const struct json *lists = json_get(doc, front ? "prepend" : "append");
    if (lists != NULL && lists->type != JSON_OBJ) {
        return bad(e, "'prepend' and 'append' are objects");
    }
    json_foreach_member (m, lists) {
        struct env_list l = {0};
        int rc = read_list(r, m, &l, e);
        if (rc != 0) {
            return rc;
        }
        if (takes(m->key) && front) {
            vec_push(&r->prepend, l);
        } else if (takes(m->key)) {
            vec_push(&r->append, l);
        }
    }
    return 0;
}

static int read_answer(struct env_result *r, const struct json *doc, struct err *e)
{
    if (json_int(json_get(doc, "v"), 0) != 1) {
        return bad(e, "its version 'v' is not 1");
    }
    int rc = read_set(r, doc, e);
    rc = rc == 0 ? read_unset(r, doc, e) : rc;
    rc = rc == 0 ? read_lists(r, doc, true, e) : rc;
    rc = rc == 0 ? read_lists(r, doc, false, e) : rc;
    json_foreach_item (it, rc == 0 ? json_get(doc, "messages") : NULL) {
        const char *text;
        if (!text_of(&r->arena, it, &text)) {
            return bad(e, "a message is not a string");
        }
        vec_push(&r->messages, text);
    }
    return rc;
}

static int read_inputs(struct env_wire *w, const struct json *doc, struct err *e)
{
    json_foreach_item (it, json_get(doc, "inputs")) {
        struct str kind = json_str(json_get(it, "kind"), "file");
        const struct json *path = json_get(it, "path");
        const char *text;
        if (path == NULL || !text_of(&w->arena, path, &text) || text[0] == '\0') {
            return bad(e, "an input has no path");
        }
        if (w->on_input != NULL) {
            w->on_input(text,
                        str_eqz(kind, "dir")       ? ENV_DIR
                        : str_eqz(kind, "missing") ? ENV_MISSING
                                                   : ENV_FILE,
                        w->arg);
        }
    }
    return 0;
}

static int take_line(struct env_wire *w, struct str line, struct err *e)
{
    struct arena a = {0};
    struct json *doc;
    struct err why = {0};
    line = str_trim(line);
    if (line.n == 0) {
        return 0;
    }
    int rc = json_parse(&doc, &a, line, NULL, &why);
    if (rc != 0 || doc->type != JSON_OBJ) {
        rc = bad(e, rc != 0 ? why.msg : "a line is not an object");
    } else {
        rc = read_inputs(w, doc, e);
    }
    if (rc == 0 && json_get(doc, "v") != NULL) {
        env_result_unref(w->answer);
        w->answer = env_result_new();
        rc = read_answer(w->answer, doc, e);
        w->answered = true;
        w->environ = json_bool(json_get(doc, "environ"), false);
    }
    arena_fini(&a);
    return rc;
}

static void take_entry(struct env_wire *w, struct str entry)
{
    struct str value = entry, name = str_cut(&value, '=');
    bool function = value.p != NULL && str_ends(name, "()");
    if (function) {
        name.n -= 2;
    } else if (value.p == NULL || !takes(name)) {
        return;
    }
    struct env_var v = {arena_strdup(&w->arena, name), arena_strdup(&w->arena, value)};
    if (function) {
        vec_push(&w->functions, v);
    } else {
        vec_push(&w->entries, v);
    }
}

void env_wire_init(struct env_wire *w)
{
    *w = (struct env_wire){0};
    w->in.max = ENV_WIRE_MAX;
    w->answer = env_result_new();
}

void env_wire_fini(struct env_wire *w)
{
    buf_fini(&w->in);
    vec_fini(&w->entries);
    vec_fini(&w->functions);
    arena_fini(&w->arena);
    env_result_unref(w->answer);
}

int env_wire_feed(struct env_wire *w, struct str bytes, struct err *e)
{
    assert(w->answer != NULL);
    w->total += bytes.n;
    if (w->total > ENV_WIRE_MAX) {
        return err_set(e, ERR_TOO_LARGE, "the provider's answer is larger than %d MiB",
                       ENV_WIRE_MAX >> 20);
    }
    buf_adds(&w->in, bytes);
    size_t used = 0;
    for (;;) {
        struct str rest = str_from(buf_str(&w->in), used);
        ptrdiff_t end = str_index(rest, w->environ ? '\0' : '\n');
        if (end < 0) {
            break;
        }
        struct str piece = {rest.p, (size_t)end};
        used += piece.n + 1;
        if (w->environ) {
            take_entry(w, piece);
            continue;
        }
        int rc = take_line(w, piece, e);
        if (rc != 0) {
            return rc;
        }
    }
    buf_drop(&w->in, used);
    return 0;
}

int env_wire_end(struct env_wire *w, struct err *e)
{
    if (w->in.n != 0) {
        return bad(e, "its last line is incomplete");
    }
    return w->answered ? 0 : err_set(e, ERR_PARSE, "the provider wrote no answer to descriptor 3");
}

void env_wire_apply(const struct env_wire *w, struct env_vars *vars)
{
    if (w->environ) {
        size_t n;
        const char **names = env_vars_names(vars, &n);
        for (size_t i = 0; i < n; i++) {
            env_vars_unset(vars, str_of(names[i]));
        }
        vec_foreach (v, &w->entries) {
            env_vars_set(vars, str_of(v->name), str_of(v->value));
        }
    }
    env_result_apply(w->answer, vars);
}
