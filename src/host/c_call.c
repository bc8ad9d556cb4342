// One call of a plugin in C: its arguments as JSON by path, and its answer. What struct afloat_host offers, but for asking
// the hub (c_plugin.c).
//
// A call belongs to the thread that runs it; what its functions return lives in its arena.

#include "host/c_call.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

// ---- paths ----------------------------------------------------------------------------------

static struct json *find(struct json *in, struct str name)
{
    if (in->type == JSON_ARR && name.n != 0 && isdigit((unsigned char)name.p[0])) {
        char *digits = str_dup(name);
        size_t i = strtoul(digits, NULL, 10);
        free(digits);
        return i < in->n ? &in->items[i] : NULL;
    }
    for (uint32_t i = 0; in->type == JSON_OBJ && i < in->n; i++) {
        if (str_eq(in->members[i].key, name)) {
            return &in->members[i].value;
        }
    }
    return NULL;
}

/// A new member of an object, or the next element of a list; NULL when `in` is neither.
static struct json *add(struct arena *a, struct json *in, struct str name)
{
    if (in->type == JSON_OBJ) {
        struct json_member *more = arena_calloc(a, in->n + 1, sizeof *more);
        if (in->n != 0) {
            memcpy(more, in->members, in->n * sizeof *more);
        }
        more[in->n].key = arena_str(a, name);
        in->members = more;
        return &more[in->n++].value;
    }
    if (in->type == JSON_ARR) {
        struct json *more = arena_calloc(a, in->n + 1, sizeof *more);
        if (in->n != 0) {
            memcpy(more, in->items, in->n * sizeof *more);
        }
        in->items = more;
        return &more[in->n++];
    }
    return NULL;
}

static struct json *reach(struct afloat_call *c, const char *path, bool create)
{
    struct json *at = c->root;
    for (struct str rest = str_of(path); rest.n != 0 && at != NULL;) {
        struct str name = str_cut(&rest, '.');
        struct json *next = find(at, name);
        if (next == NULL && create) {
            next = add(&c->arena, at, name);
            if (next != NULL && rest.n != 0) {
                next->type = JSON_OBJ;
            }
        }
        at = next;
    }
    return at;
}

// ---- reading --------------------------------------------------------------------------------

static char *json_text(struct afloat_call *c, const struct json *v)
{
    struct buf text = {.max = SIZE_MAX};
    json_write(&text, v, 0);
    char *out = arena_strdup(&c->arena, buf_str(&text));
    buf_fini(&text);
    return out;
}

const char *c_call_json(struct afloat_call *c, const char *path)
{
    return json_text(c, reach(c, path, false));
}

const char *c_call_text(struct afloat_call *c, const char *path)
{
    const struct json *v = reach(c, path, false);
    if (v == NULL || v->type == JSON_NULL) {
        return NULL;
    }
    return v->type == JSON_STR ? arena_strdup(&c->arena, v->s) : json_text(c, v);
}

long long c_call_int(struct afloat_call *c, const char *path, long long fallback)
{
    return json_int(reach(c, path, false), fallback);
}

// ---- changing -------------------------------------------------------------------------------

static bool put(struct afloat_call *c, const char *path, const struct json *value)
{
    struct json *at = reach(c, path, true);
    struct str first = str_of(path);
    if (at == NULL || value == NULL) {
        return false;
    }
    *at = *value;
    c->state_changed |= str_starts(str_of(path), "ctx.state");
    c->memory_changed |= str_starts(str_of(path), "ctx.memory");
    first = str_cut(&first, '.');
    c->value_changed |= c->last != NULL && str_eqz(first, c->last);
    return true;
}

bool c_call_set(struct afloat_call *c, const char *path, const char *json)
{
    struct json *v = NULL;
    struct str text = arena_str(&c->arena, str_of(json));
    return json_parse(&v, &c->arena, text, NULL, NULL) == 0 && put(c, path, v);
}

bool c_call_set_text(struct afloat_call *c, const char *path, const char *text)
{
    const struct json v = {.type = JSON_STR, .s = arena_str(&c->arena, str_of(text))};
    return put(c, path, &v);
}

// ---- answering ------------------------------------------------------------------------------

static void answer(struct afloat_call *c, bool text, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

static void answer(struct afloat_call *c, bool text, const char *format, va_list ap)
{
    char *said = xvasprintf(format, ap);
    struct jw w;
    c->answered = true;
    buf_clear(&c->answer);
    if (text) {
        jw_init(&w, &c->answer);
        jw_str(&w, str_of(said));
    } else {
        buf_addz(&c->answer, said);
    }
    free(said);
}

void c_call_answer_text(struct afloat_call *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    answer(c, true, format, ap);
    va_end(ap);
}

void c_call_answer_json(struct afloat_call *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    answer(c, false, format, ap);
    va_end(ap);
}

void c_call_fail(struct afloat_call *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    free(c->message);
    c->message = xvasprintf(format, ap);
    va_end(ap);
}

// ---- life -----------------------------------------------------------------------------------

struct afloat_call *c_call_new(int64_t id)
{
    struct afloat_call *c = xcalloc(1, sizeof *c);
    c->id = id;
    buf_init(&c->answer, SIZE_MAX);
    c->root = arena_calloc(&c->arena, 1, sizeof *c->root);
    c->root->type = JSON_OBJ;
    return c;
}

void c_call_arg(struct afloat_call *c, const char *name, const struct json *value)
{
    static const struct json nothing = {.type = JSON_OBJ};
    struct json *at = add(&c->arena, c->root, str_of(name));
    *at = *json_clone(&c->arena, value != NULL ? value : &nothing);
}

int c_call_check(struct afloat_call *c, struct err *e)
{
    struct json *v;
    if (c->message != NULL) {
        return err_set(e, ERR_INVALID, "%s", c->message);
    }
    if (!c->answered && c->value_changed) {
        c_call_answer_json(c, "%s", c_call_json(c, c->last));
    }
    if (!c->answered) {
        buf_addz(&c->answer, "null");
        return 0;
    }
    struct buf line = {.max = SIZE_MAX}; // a message is one line, whatever the plugin wrote
    if (json_parse(&v, &c->arena, buf_str(&c->answer), NULL, e) < 0) {
        return err_prefix(e, "its answer is no JSON");
    }
    json_write(&line, v, 0);
    buf_fini(&c->answer);
    c->answer = line;
    return 0;
}

void c_call_free(struct afloat_call *c)
{
    arena_fini(&c->arena);
    buf_fini(&c->answer);
    free(c->message);
    free(c);
}
