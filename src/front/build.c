// One build: what the compiler is asked, what it asks back, what it made.
//
//     request ──> on-start, on-resolve "./chart", on-load "front/chart.tsx", ... ──> result: files or errors
//
// All imports and files go through our answers: the compiler opens nothing itself. JSX is compiled to calls of
// `afloat/jsx-runtime`, which keeps the state of components over a swap; for that it must know the components of a
// module by name. The compiler's output has every declaration of the module's top level at the beginning of a line,
// so their names are read from there and exported as `__afloat`. A name that only looks like one (a line
// of a template string) is exported as undefined.

#include <assert.h>

#include "front/front_int.h"

enum { RESOLVE = 1, LOAD = 2 }; // our callbacks, by the ids that we give them
#define SPACE "plugin"          // the namespace of the tree's files

// ---- to the compiler --------------------------------------------------------------------------

static void write_text(struct buf *out, uint32_t id, bool is_request, struct str text)
{
    struct arena a = {0};
    struct json *v;
    int rc = json_parse(&v, &a, text, NULL, NULL);
    assert(rc == 0); // our own text
    packet__write(out, id, is_request, v);
    arena_fini(&a);
}

void build__request(const struct build *b, struct buf *out)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "command", "build");
    jw_kint(&w, "key", (int64_t)b->id);
    jw_karr(&w, "entries");
    jw_arr(&w);
    jw_strz(&w, "index");
    jw_strz(&w, b->entry);
    jw_end_arr(&w);
    jw_end_arr(&w);
    jw_key(&w, "flags");
    jw_raw(&w, STR("[\"--bundle\",\"--format=esm\",\"--platform=browser\",\"--target=es2022\","
                   "\"--jsx=automatic\",\"--jsx-import-source=afloat\",\"--sourcemap=linked\","
                   "\"--define:process.env.NODE_ENV=\\\"production\\\"\",\"--charset=utf8\","
                   "\"--log-level=silent\",\"--log-limit=0\",\"--color=false\",\"--outdir=/\"]"));
    jw_kbool(&w, "write", false);
    jw_kvalue(&w, "stdinContents", NULL);
    jw_kvalue(&w, "stdinResolveDir", NULL);
    jw_kstrz(&w, "absWorkingDir", "/");
    jw_karr(&w, "nodePaths");
    jw_end_arr(&w);
    jw_kbool(&w, "context", false);
    jw_key(&w, "plugins");
    jw_raw(&w, STR("[{\"name\":\"afloat\",\"onStart\":false,\"onEnd\":false,"
                   "\"onResolve\":[{\"id\":1,\"filter\":\".*\",\"namespace\":\"\"}],"
                   "\"onLoad\":[{\"id\":2,\"filter\":\".*\",\"namespace\":\"" SPACE "\"}]}]"));
    jw_end_obj(&w);
    write_text(out, b->id, true, buf_str(&text));
    buf_fini(&text);
}

static void write_error(struct jw *w, const char *text)
{
    jw_karr(w, "errors");
    jw_obj(w);
    jw_kstrz(w, "id", "");
    jw_kstrz(w, "pluginName", "");
    jw_kstrz(w, "text", text);
    jw_kvalue(w, "location", NULL); // the compiler knows where the import stands
    jw_karr(w, "notes");
    jw_end_arr(w);
    jw_kint(w, "detail", -1);
    jw_end_obj(w);
    jw_end_arr(w);
}

static void answer_resolve(const struct build *b, const struct json *q, struct jw *w)
{
    struct arena a = {0};
    const char *at;
    struct str importer = json_str(json_get(q, "importer"), "");
    struct str path = json_str(json_get(q, "path"), "");
    enum front_found found = front__resolve(b->tree, importer, path, &a, &at);
    jw_kint(w, "id", RESOLVE);
    if (found == FOUND_NOT) {
        write_error(w, at);
    } else {
        jw_kstrz(w, "path", at);
        jw_kbool(w, "external", found == FOUND_EXTERNAL);
        jw_kstrz(w, "namespace", found == FOUND_FILE ? SPACE : "");
    }
    arena_fini(&a);
}

/// Bytes are no JSON: this answer is made by hand.
static void answer_load(const struct build *b, const struct packet *q, struct buf *out)
{
    const struct tree_file *f = tree_find(b->tree, json_str(json_get(q->value, "path"), ""));
    const char *loader = f != NULL ? front__loader(str_of(f->path)) : NULL;
    struct json_member members[] = {
        {STR("id"), {.type = JSON_INT, .i = LOAD}},
        {STR("contents"), {.type = JSON_STR, .s = f != NULL ? f->bytes : STR("")}},
        {STR("loader"), {.type = JSON_STR, .s = str_of(loader != NULL ? loader : "empty")}},
    };
    struct json v = {.type = JSON_OBJ, .n = ARRAY_LEN(members), .members = members};
    packet__write(out, q->id, false, &v);
}

void build__answer(const struct build *b, const struct packet *q, struct buf *out)
{
    struct str command = json_str(json_get(q->value, "command"), "");
    if (str_eqz(command, "on-load")) {
        answer_load(b, q, out);
        return;
    }
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    if (str_eqz(command, "on-resolve")) {
        answer_resolve(b, q->value, &w);
    } else { // on-start, on-end: we have nothing to say
        jw_karr(&w, "errors");
        jw_end_arr(&w);
        jw_karr(&w, "warnings");
        jw_end_arr(&w);
    }
    jw_end_obj(&w);
    write_text(out, q->id, false, buf_str(&text));
    buf_fini(&text);
}

// ---- from the compiler ------------------------------------------------------------------------

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$';
}

/// The name that a line of the top level declares, if it is that of a component or a hook: `Chart`, `useData`.
static struct str declared(struct str line)
{
    static const char *const before[] = {"function ", "async function ", "var ", "class "};
    for (size_t i = 0; i < ARRAY_LEN(before); i++) {
        if (str_starts(line, before[i])) {
            struct str rest = str_from(line, strlen(before[i]));
            size_t n = 0;
            while (n < rest.n && is_word(rest.p[n])) {
                n++;
            }
            bool hook = n > 3 && str_starts(rest, "use") && rest.p[3] >= 'A' && rest.p[3] <= 'Z';
            bool component = n != 0 && rest.p[0] >= 'A' && rest.p[0] <= 'Z';
            return hook || component ? (struct str){rest.p, n} : STR_NULL;
        }
    }
    return STR_NULL;
}

/// The module, with its components and hooks exported by name before the source map.
static char *with_names(struct str js, size_t *n)
{
    struct buf out = {.max = SIZE_MAX}, names = {.max = SIZE_MAX};
    struct str rest = js;
    while (rest.n != 0) {
        struct str name = declared(str_cut(&rest, '\n'));
        if (name.n != 0) {
            buf_addf(&names, STR_FMT ":typeof " STR_FMT "===\"undefined\"?undefined:" STR_FMT ",",
                     STR_ARG(name), STR_ARG(name), STR_ARG(name));
        }
    }
    static const char map[] = "//# sourceMappingURL=";
    const char *at = memmem(js.p, js.n, map, sizeof map - 1);
    size_t head = at != NULL ? (size_t)(at - js.p) : js.n;
    buf_add(&out, js.p, head);
    buf_addf(&out, "export const __afloat={%s};\n", buf_z(&names));
    buf_adds(&out, str_from(js, head));
    buf_fini(&names);
    return buf_take(&out, n);
}

struct front_output *front_output_ref(struct front_output *o)
{
    o->refs++;
    return o;
}

void front_output_unref(struct front_output *o)
{
    assert(o == NULL || o->refs != 0);
    if (o != NULL && --o->refs == 0) {
        free(o->js);
        free(o->css);
        free(o->map);
        free(o);
    }
}

static struct front_output *output_of(const struct json *files)
{
    struct front_output *o = xcalloc(1, sizeof *o);
    o->refs = 1;
    json_foreach_item (f, files) {
        struct str path = json_str(json_get(f, "path"), "");
        struct str bytes = json_str(json_get(f, "contents"), "");
        if (str_ends(path, ".js") && o->js == NULL) {
            o->js = with_names(bytes, &o->n_js);
        } else if (str_ends(path, ".css") && o->css == NULL) {
            o->css = str_dup(bytes);
            o->n_css = bytes.n;
        } else if (str_ends(path, ".js.map") && o->map == NULL) {
            o->map = str_dup(bytes);
            o->n_map = bytes.n;
        }
    }
    if (o->js == NULL) {
        front_output_unref(o);
        return NULL;
    }
    return o;
}

/// The first error is the diagnostic; the others are counted.
static void fail_with(struct build *b, const struct json *errors)
{
    const struct json *first = json_at(errors, 0), *where = json_get(first, "location");
    struct arena a = {0};
    struct str file = json_str(json_get(where, "file"), "");
    struct str text = json_str(json_get(first, "text"), "the compiler gave no reason");
    file = str_starts(file, SPACE ":") ? str_from(file, sizeof SPACE) : file;
    char *more = errors->n > 1 ? arena_printf(&a, " (and %u more)", errors->n - 1) : NULL;
    struct gen_diag d = {
        .code = DIAG_FRONT_BUILD_FAILED,
        .source = "front",
        .path = arena_strdup(&a, file.n != 0 ? file : str_of(b->entry)),
        .line = (int)json_int(json_get(where, "line"), 0),
        .message = arena_printf(&a, STR_FMT "%s", STR_ARG(text), more != NULL ? more : ""),
    };
    b->cb(b->arg, NULL, &d, false);
    arena_fini(&a);
}

void build__result(struct build *b, const struct json *result)
{
    const struct json *errors = json_get(result, "errors"), *refused = json_get(result, "error");
    struct front_output *o =
        errors == NULL || errors->n == 0 ? output_of(json_get(result, "outputFiles")) : NULL;
    if (o != NULL) {
        b->cb(b->arg, o, NULL, false);
    } else if (errors != NULL && errors->n != 0) {
        fail_with(b, errors);
    } else {
        struct arena a = {0};
        struct str why = json_str(refused, "it made no module");
        build__fail(b, false, arena_printf(&a, "the compiler failed: " STR_FMT, STR_ARG(why)),
                    NULL);
        arena_fini(&a);
    }
}

void build__fail(struct build *b, bool missing, const char *message, const char *hint)
{
    struct gen_diag d = {.code = DIAG_FRONT_BUILD_FAILED,
                         .source = "front",
                         .path = b->entry,
                         .message = message,
                         .hint = hint};
    b->cb(b->arg, NULL, &d, missing);
}
