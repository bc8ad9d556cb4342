// What an editor sends as a message: one text, and pictures.
//
// Texts are joined, pictures are passed on. The editor is asked for the text of a file that is mentioned, saved or not;
// if it does not give it, only the path is named, and the model reads the file itself. Text that comes along (a
// selection) is quoted.

#include <assert.h>

#include "acp/acp_int.h"
#include "base/url.h"

struct composing {
    struct acp *acp;
    char *session;
    struct arena arena;
    const struct json *blocks;
    struct str *parts; // one for each block
    size_t waiting;
    acp_composed *done;
    void *arg;
};

struct wanted {
    struct composing *c;
    size_t at;
    char *path;
};

/// The path of a file:// address, decoded; NULL: it is none. In the arena.
static char *path_of(struct arena *a, struct str uri)
{
    if (!str_starts(uri, "file://")) {
        return NULL;
    }
    struct str rest = str_from(uri, 7), path_part = str_cut(&rest, '#');
    struct buf text = {.max = SIZE_MAX};
    url_decode(&text, str_cut(&path_part, '?'), false);
    char *path = arena_strdup(a, buf_str(&text));
    buf_fini(&text);
    return path[0] == '/' ? path : NULL;
}

/// The pictures as POST /session/{id}/message takes them; nothing is written when there are none.
static void write_images(const struct json *blocks, struct buf *out)
{
    bool any = false;
    struct jw w = {.out = out};
    json_foreach_item (it, blocks) {
        if (str_eqz(json_get_text(it, "type"), "image")) {
            if (!any) {
                jw_arr(&w);
            }
            any = true;
            jw_obj(&w);
            jw_kstr(&w, "data", json_get_text(it, "data"));
            jw_end_obj(&w);
        }
    }
    if (any) {
        jw_end_arr(&w);
    }
}

static void finish(struct composing *c)
{
    assert(c->waiting == 0);
    struct buf text = {.max = SIZE_MAX}, images = {.max = SIZE_MAX};
    struct composing done = *c;
    write_images(c->blocks, &images);
    for (size_t i = 0; c->blocks != NULL && i < c->blocks->n; i++) {
        buf_adds(&text, c->parts[i]);
    }
    free(c);
    struct str said = str_trim(buf_str(&text));
    done.done(done.arg, said.n == 0 && images.n != 0 ? STR("[picture]") : said, buf_str(&images));
    buf_fini(&text);
    buf_fini(&images);
    free(done.session);
    arena_fini(&done.arena);
}

static struct str quote(struct composing *c, struct str name, struct str text)
{
    return str_of(arena_printf(&c->arena, "\n\n<file path=\"" STR_FMT "\">\n" STR_FMT "\n</file>\n",
                               STR_ARG(name), STR_ARG(text)));
}

static void on_text(void *arg, const struct json *result)
{
    struct wanted *w = arg;
    struct composing *c = w->c;
    const struct json *content = json_get(result, "content");
    c->parts[w->at] = content != NULL && content->type == JSON_STR
                          ? quote(c, str_of(w->path), content->s)
                          : str_of(arena_printf(&c->arena, "`%s`", w->path));
    free(w->path);
    free(w);
    if (--c->waiting == 0) {
        finish(c);
    }
}

static void ask_text(struct composing *c, size_t at, const char *path)
{
    struct acp_message m;
    struct wanted *q = xmalloc(sizeof *q);
    *q = (struct wanted){.c = c, .at = at, .path = xstrdup(path)};
    c->waiting++;
    jw_kstrz(acp__ask(&m, c->acp, c->session, "fs/read_text_file"), "path", path);
    acp__ask_end(&m, on_text, q);
}

static void take_block(struct composing *c, size_t at, const struct json *block)
{
    struct str type = json_get_text(block, "type");
    const struct json *resource = json_get(block, "resource");
    struct str uri = json_get_text(resource != NULL ? resource : block, "uri");
    char *path = path_of(&c->arena, uri);
    if (str_eqz(type, "text")) {
        c->parts[at] = json_get_text(block, "text");
    } else if (str_eqz(type, "resource")) {
        c->parts[at] = quote(c, path != NULL ? str_of(path) : uri,
                             json_str(json_get(resource, "text"), "[not a text]"));
    } else if (str_eqz(type, "resource_link") && path != NULL && c->acp->reads_files) {
        ask_text(c, at, path);
    } else if (str_eqz(type, "resource_link")) {
        struct str name = path != NULL ? str_of(path) : uri;
        c->parts[at] = str_of(arena_printf(&c->arena, "`" STR_FMT "`", STR_ARG(name)));
    }
}

void acp__compose(struct acp *a, const char *session, const struct json *blocks, acp_composed *done,
                  void *arg)
{
    struct composing *c = xcalloc(1, sizeof *c);
    *c = (struct composing){
        .acp = a, .session = xstrdup(session), .waiting = 1, .done = done, .arg = arg};
    c->blocks = blocks != NULL && blocks->type == JSON_ARR ? json_clone(&c->arena, blocks) : NULL;
    c->parts = arena_calloc(&c->arena, c->blocks != NULL ? c->blocks->n + 1 : 1, sizeof *c->parts);
    for (size_t i = 0; c->blocks != NULL && i < c->blocks->n; i++) {
        take_block(c, i, &c->blocks->items[i]);
    }
    if (--c->waiting == 0) {
        finish(c);
    }
}
