// Resources of MCP servers in what is said: `@SERVER:ADDRESS`, as in `@docs:file:///guide.md`.
//
// Each one that a server has is read, and its text follows the message. A word that names none stays a word. Nothing is
// said of failures but in a note: the message goes out without it.

#include "chat/chat_int.h"

enum { MOST = 10 };

/// Offer `SERVER:ADDRESS` if it begins with what was typed.
static void offer_address(struct menu *m, struct str start, struct str server, struct str address)
{
    struct buf full = {.max = SIZE_MAX};
    buf_addf(&full, STR_FMT ":" STR_FMT, STR_ARG(server), STR_ARG(address));
    if (full.n > start.n && (start.n == 0 || memcmp(full.p, start.p, start.n) == 0)) {
        menu_offer(m, buf_str(&full));
    }
    buf_fini(&full);
}

/// The server knows the values of variables in its templates.
static void offer_values(struct chat *t, struct menu *m, struct str start, struct str server)
{
    struct arena a = {0};
    struct str uri = start;
    if (str_eq(str_cut(&uri, ':'), server) && uri.p != NULL) {
        struct ask_param params[] = {{"name", arena_strdup(&a, server)},
                                     {"uri", arena_strdup(&a, uri)}};
        const struct json *v = ask_quietly(t->c, OP_MCP_COMPLETE, params, ARRAY_LEN(params), 0, &a);
        json_foreach_item (it, json_get(v, "values")) {
            offer_address(m, start, server, json_str(it, ""));
        }
    }
    arena_fini(&a);
}

void chat__resource_names(struct chat *t, struct menu *m, struct str start)
{
    struct arena a = {0};
    const struct json *servers =
        json_get(ask_quietly(t->c, OP_MCP_LIST, NULL, 0, 0, &a), "servers");
    json_foreach_item (server, servers) {
        struct str name = json_get_text(server, "name");
        const struct json *templates = json_get(server, "templates");
        json_foreach_item (uri, json_get(server, "resources")) {
            offer_address(m, start, name, json_str(uri, ""));
        }
        json_foreach_item (uri, templates) { // up to its first variable
            struct str rest = json_str(uri, "");
            offer_address(m, start, name, str_cut(&rest, '{'));
        }
        if (templates != NULL && templates->n != 0) {
            offer_values(t, m, start, name);
        }
    }
    arena_fini(&a);
}

/// Read what the word (without its `@`) names, and add it.
static void add_resource(struct chat *t, struct str word, struct buf *out)
{
    struct arena a = {0};
    struct str uri = word;
    struct str server = str_cut(&uri, ':');
    struct ask_param params[] = {{"name", arena_strdup(&a, server)},
                                 {"uri", arena_strdup(&a, uri)}};
    const struct json *text =
        json_get(ask_quietly(t->c, OP_MCP_READ, params, ARRAY_LEN(params), 0, &a), "text");
    if (text == NULL) {
        out_note(&t->c->out, "cannot read '@" STR_FMT "'; it stays a word", STR_ARG(word));
    } else {
        buf_addf(out, "\n\n<resource uri=\"" STR_FMT "\">\n" STR_FMT "\n</resource>", STR_ARG(uri),
                 STR_ARG(json_str(text, "")));
    }
    arena_fini(&a);
}

void chat__add_resources(struct chat *t, struct str text, struct buf *out)
{
    struct str rest = text;
    buf_adds(out, text);
    for (int n = 0; rest.n != 0 && n < MOST;) {
        size_t end = 0;
        while (end < rest.n && (unsigned char)rest.p[end] > ' ') {
            end++;
        }
        struct str word = {rest.p, end}, uri = word;
        str_cut(&uri, ':');
        if (str_starts(word, "@") && uri.n != 0 && memmem(uri.p, uri.n, "://", 3) != NULL) {
            add_resource(t, str_from(word, 1), out);
            n++;
        }
        rest = str_from(rest, end + 1);
    }
}
