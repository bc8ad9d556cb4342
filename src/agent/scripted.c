// A scene of a scenario as the bytes of a Responses stream.
//
// The scripted model only takes the place of the server. Its answers go through the same parser and the
// same loop as any other answer, so tests that use it test the real path.
//
//     {"text": ..., "tool_calls": [...]} ──> created, delta, delta, ..., item.done, ..., completed
//
// Events are made one at a time, so a long text is never in memory twice.

#include "agent/scripted.h"

#include <assert.h>
#include <ctype.h>

#include "agent/make.h"

// ---- reading a scene ------------------------------------------------------------------------

/// The n-th line that is not empty; `*number` is its place in the file, from 1.
static struct str find_line(struct str scenario, uint64_t n, uint64_t *number)
{
    for (*number = 1; scenario.n != 0; ++*number) {
        struct str line = str_trim(str_cut(&scenario, '\n'));
        if (line.n != 0 && --n == 0) {
            return line;
        }
    }
    return STR("{\"text\": \"(end of scenario)\"}");
}

/// The keys of an object of a scenario. Others are refused: a mistyped key would be ignored silently.
struct scene_key {
    const char *name;
    enum json_type type; // JSON_NULL: any
};

static const struct scene_key line_keys[] = {
    {"text", JSON_STR},       {"reasoning", JSON_STR}, {"when", JSON_STR},
    {"tool_calls", JSON_ARR}, {"usage", JSON_OBJ},     {"error", JSON_OBJ},
    {"delay_ms", JSON_INT},   {"delta_ms", JSON_INT},  {0}};
static const struct scene_key call_keys[] = {{"name", JSON_STR}, {"input", JSON_NULL}, {0}};
static const struct scene_key usage_keys[] = {
    {"input", JSON_INT}, {"cached", JSON_INT}, {"output", JSON_INT}, {"reasoning", JSON_INT}, {0}};
static const struct scene_key error_keys[] = {{"status", JSON_INT},
                                              {"times", JSON_INT},
                                              {"retry_after", JSON_NULL},
                                              {"code", JSON_STR},
                                              {"message", JSON_STR},
                                              {"cut", JSON_BOOL},
                                              {0}};

static int check_keys(const struct json *obj, const char *where, const struct scene_key *keys,
                      struct err *e)
{
    const char *names[12];
    size_t n = 0;
    for (; keys[n].name != NULL; n++) {
        assert(n < ARRAY_LEN(names));
        names[n] = keys[n].name;
    }
    json_foreach_member (m, obj) {
        size_t i = 0;
        while (i < n && !str_eqz(m->key, names[i])) {
            i++;
        }
        if (i == n) {
            const char *near = str_nearest(m->key, names, n);
            return err_set(e, ERR_PARSE, "%shas no key '" STR_FMT "'%s%s%s", where, STR_ARG(m->key),
                           near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                           near != NULL ? "'?" : "");
        }
        if (keys[i].type != JSON_NULL && m->value.type != keys[i].type) {
            return err_set(e, ERR_PARSE, "'%s' must be of type %s", names[i],
                           json_type_name(&(struct json){.type = keys[i].type}));
        }
    }
    return 0;
}

static int check(const struct json *line, struct err *e)
{
    int rc = 0;
    if (line->type != JSON_OBJ) {
        return err_set(e, ERR_PARSE, "it must be an object");
    }
    if ((rc = check_keys(line, "a line ", line_keys, e)) != 0 ||
        (rc = check_keys(json_get(line, "usage"), "'usage' ", usage_keys, e)) != 0 ||
        (rc = check_keys(json_get(line, "error"), "'error' ", error_keys, e)) != 0) {
        return rc;
    }
    json_foreach_item (call, json_get(line, "tool_calls")) {
        rc = check_keys(call, "a tool call ", call_keys, e);
        if (rc == 0 && json_get_text(call, "name").n == 0) {
            rc = err_set(e, ERR_PARSE, "each of 'tool_calls' needs a 'name'");
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static void set_line(struct scripted_scene *s, const struct json *line, uint64_t n)
{
    s->n = n;
    s->line = line;
    s->text = json_get_text(line, "text");
    s->delay_ms = (uint64_t)MAX(json_int(json_get(line, "delay_ms"), 0), 0);
    s->delta_ms = (uint64_t)MAX(json_int(json_get(line, "delta_ms"), 0), 0);
    s->writer.brief = true;
    s->writer.id = arena_printf(&s->arena, "resp_%llu", (unsigned long long)n);
}

void scripted_init_line(struct scripted_scene *s, const struct json *line, uint64_t n)
{
    *s = (struct scripted_scene){0};
    set_line(s, line, n);
}

int scripted_init(struct scripted_scene *s, struct str scenario, uint64_t n, struct err *e)
{
    struct err own;
    struct json *line;
    e = e != NULL ? e : &own;
    *s = (struct scripted_scene){0};
    int rc = json_parse(&line, &s->arena, find_line(scenario, n, &s->number), NULL, e);
    if (rc == 0) {
        rc = check(line, e);
    }
    if (rc != 0) {
        return err_prefix(e, "line %llu of the scenario", (unsigned long long)s->number);
    }
    set_line(s, line, n);
    return 0;
}

void scripted_fini(struct scripted_scene *s)
{
    responses_fini(&s->writer);
    arena_fini(&s->arena);
}

struct str scripted_when(const struct scripted_scene *s)
{
    return json_get_text(s->line, "when");
}

// ---- failing --------------------------------------------------------------------------------

enum scripted_fate scripted_fate(const struct scripted_scene *s, unsigned number,
                                 struct scripted_failure *out)
{
    const struct json *error = json_get(s->line, "error");
    int64_t code = json_int(json_get(error, "status"), 500);
    double after = json_double(json_get(error, "retry_after"), 0);
    if (error == NULL || number > json_int(json_get(error, "times"), 1)) {
        return SCRIPTED_ANSWERS;
    }
    if (json_bool(json_get(error, "cut"), false)) {
        return SCRIPTED_IS_CUT;
    }
    *out = (struct scripted_failure){
        .status = code >= 400 && code <= 599 ? (int)code : 500,
        .retry_after_ms = after > 0 && after < 1e6 ? (uint64_t)(after * 1000) : 0,
        .code = json_get_text(error, "code"),
        .message = json_str(json_get(error, "message"), "the scenario says so"),
    };
    return SCRIPTED_FAILS;
}

// ---- speaking -------------------------------------------------------------------------------

// The length of the first word with the spaces after it.
static size_t word_length(struct str s)
{
    size_t n = 0;
    while (n < s.n && !isspace((unsigned char)s.p[n])) {
        n++;
    }
    while (n < s.n && isspace((unsigned char)s.p[n])) {
        n++;
    }
    return n;
}

static void say_calls(struct scripted_scene *s)
{
    unsigned i = 0;
    json_foreach_item (call, json_get(s->line, "tool_calls")) {
        const struct json *input = json_get(call, "input");
        char id[48];
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, input, 0);
        snprintf(id, sizeof id, "call_%llu_%u", (unsigned long long)s->n, ++i);
        responses_call(&s->writer, str_of(id), json_get(call, "name")->s,
                       input == NULL             ? STR("{}")
                       : input->type == JSON_STR ? input->s
                                                 : buf_str(&text));
        buf_fini(&text);
    }
}

bool scripted_next(struct scripted_scene *s, uint64_t input_tokens, struct buf *out)
{
    enum { OPENING, WORDS, OVER };
    s->writer.out = out;
    if (s->stage == OPENING) {
        struct str reasoning = json_get_text(s->line, "reasoning");
        struct json block = make_strz("scripted");
        responses_begin(&s->writer);
        if (reasoning.n != 0) {
            responses_delta(&s->writer, &(struct provider_delta){.reasoning = reasoning});
            responses_delta(&s->writer, &(struct provider_delta){.sealed = &block});
        }
        s->stage = WORDS;
        return true;
    }
    if (s->stage == WORDS && s->cut && s->said * 2 >= s->text.n) {
        s->stage = OVER;
    }
    if (s->stage == WORDS && s->said < s->text.n) {
        struct str rest = str_from(s->text, s->said), word = {rest.p, word_length(rest)};
        s->said += word.n;
        responses_delta(&s->writer, &(struct provider_delta){.text = word});
        return true;
    }
    if (s->stage == OVER) {
        return false;
    }
    say_calls(s);
    const struct json *usage = json_get(s->line, "usage");
    responses_complete(
        &s->writer,
        &(struct provider_usage){
            .input = json_int(json_get(usage, "input"), (int64_t)input_tokens),
            .cached = json_int(json_get(usage, "cached"), 0),
            .output = json_int(json_get(usage, "output"), (int64_t)(s->text.n + 3) / 4),
            .reasoning = json_int(json_get(usage, "reasoning"), 0),
        },
        NULL);
    s->stage = OVER;
    return true;
}
