// What servers answer, as text for a model.
//
// A result is a list of blocks. Texts and texts of resources are joined; what is no text (an image, a sound) is
// named with its type and size. A result that has only structured content is that content as JSON.

#include "gen/result.h"
#include "mcp/server_int.h"

static void add_block(struct buf *out, const struct json *block)
{
    struct str type = json_get_text(block, "type");
    const struct json *resource = json_get(block, "resource");
    const struct json *text = json_get(str_eqz(type, "resource") ? resource : block, "text");
    if (out->n != 0) {
        buf_addc(out, '\n');
    }
    if (text != NULL && text->type == JSON_STR) {
        buf_adds(out, text->s);
    } else if (str_eqz(type, "resource_link")) {
        struct str uri = json_get_text(block, "uri");
        buf_addf(out, "[resource " STR_FMT "]", STR_ARG(uri));
    } else {
        const struct json *of = str_eqz(type, "resource") ? resource : block;
        struct str mime = json_str(json_get(of, "mimeType"), "unknown type");
        struct str data = json_str(json_get(of, resource != NULL ? "blob" : "data"), "");
        buf_addf(out, "[" STR_FMT ", " STR_FMT ", %zu bytes]", STR_ARG(type), STR_ARG(mime),
                 data.n / 4 * 3);
    }
}

/// The blocks of a list; of its items, the member `key` is the block unless that is NULL.
static struct str text_of(struct arena *a, const struct json *list, const char *key)
{
    struct buf text = {.max = SIZE_MAX};
    json_foreach_item (it, list) {
        add_block(&text, key != NULL ? json_get(it, key) : it);
    }
    struct str all = arena_str(a, buf_str(&text));
    buf_fini(&text);
    return all;
}

const struct json *mcp__result(struct arena *a, const struct json *answer)
{
    const struct json *structured = json_get(answer, "structuredContent");
    bool failed = json_bool(json_get(answer, "isError"), false);
    struct str output = text_of(a, json_get(answer, "content"), NULL);
    if (output.n == 0 && structured != NULL) {
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, structured, 0);
        output = arena_str(a, buf_str(&text));
        buf_fini(&text);
    }
    return gen_result_new(a, output, !failed,
                          failed ? STR("the tool reported an error") : STR_NULL);
}

struct str mcp__resource_text(struct arena *a, const struct json *answer)
{
    return text_of(a, json_get(answer, "contents"), NULL);
}

struct str mcp__prompt_text(struct arena *a, const struct json *answer)
{
    return text_of(a, json_get(answer, "messages"), "content");
}
