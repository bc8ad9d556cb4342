// What the user has seen of a server's tools.
//
// A server can change what a tool says of itself after the user has come to trust it, and a description is an
// instruction that every model follows; so are the texts in the schema of its input. So the first description and schema
// of each tool are kept. What differs later is not shown to the model: the kept ones stay until a call of the tool was
// allowed by the user, who sees the difference with the question.
//
// Kept in state/mcp/NAME-HASH.json, an object {tool: {description, schema, mark}}; the hash is of what the server *is*
// (its program or address), so that a server which the user replaces begins anew.
//
// A server that invents names without end fills the record; then its further tools are not offered. None is forgotten:
// the server could offer it again with another description, under a permission that the user gave to its name.

#include <assert.h>

#include "mcp/server_int.h"
#include "store/store.h"

enum { HASH_PART = 8, APPROVALS_MAX = 10000 };

const struct mcp_approval *mcp__approval(const struct mcp_server *s, const char *tool)
{
    return map_get(&s->approved, str_of(tool));
}

static void approval_free(struct mcp_approval *a)
{
    if (a != NULL) {
        free(a->description);
        free(a->schema);
        free(a);
    }
}

/// Put it in the place of what was kept of the tool.
static void put(struct mcp_server *s, struct str tool, struct str description, struct str mark,
                char *schema)
{
    struct mcp_approval *a = xcalloc(1, sizeof *a);
    *a = (struct mcp_approval){.description = str_dup(description), .schema = schema};
    snprintf(a->mark, sizeof a->mark, STR_FMT, STR_ARG(mark));
    approval_free(map_set(&s->approved, tool, a));
}

static char *text_of(const struct json *v)
{
    struct buf text = {.max = SIZE_MAX};
    if (v == NULL) {
        return NULL;
    }
    json_write(&text, v, 0);
    return buf_take(&text, NULL);
}

static void on_read(void *arg, int status, struct str text, const struct err *e)
{
    struct mcp_server *s = arg;
    struct arena a = {0};
    struct json *v = NULL;
    (void)e;
    s->reading--;
    s->approvals_read = true;
    if (status == 0 && text.n != 0 && json_parse(&v, &a, text, NULL, NULL) == 0) {
        json_foreach_member (m, v) {
            put(s, m->key, json_get_text(&m->value, "description"),
                json_get_text(&m->value, "mark"), text_of(json_get(&m->value, "schema")));
        }
    }
    arena_fini(&a);
    if (s->closed) {
        mcp__server_close(s);
    } else if (s->wants_start) {
        mcp__server_start(s);
    }
}

void mcp__approvals_read(struct mcp_server *s)
{
    const struct mcp_spec *spec = s->spec;
    struct buf what = {.max = SIZE_MAX};
    struct arena a = {0};
    uint8_t digest[SHA256_SIZE];
    char hex[SHA256_HEX];
    assert(s->document == NULL && !s->approvals_read);
    // an editor's server is the same one in all of its sessions
    buf_addf(&what, "%s\n%s%s\n%s", spec->name, spec->project != NULL ? spec->project : "",
             spec->session != NULL ? "an editor's" : "",
             spec->url != NULL ? spec->url : spec->command);
    for (size_t i = 0; spec->url == NULL && spec->args[i] != NULL; i++) {
        buf_addf(&what, "\n%s", spec->args[i]);
    }
    sha256_of(buf_str(&what), digest);
    sha256_hex(digest, hex);
    struct str name = mcp_name(&a, spec->name, STR_NULL);
    s->document = xasprintf("state/mcp/" STR_FMT "%.*s.json", STR_ARG(name), HASH_PART, hex);
    arena_fini(&a);
    buf_fini(&what);
    s->reading++;
    store_doc_get(s->all->o.hub->store, str_of(s->document), on_read, s);
}

bool mcp__approve_new(struct mcp_server *s, struct mcp_offer *o, bool *news)
{
    struct mcp_approval *known = map_get(&s->approved, str_of(o->tool));
    assert(o->schema != NULL);
    o->changed = known != NULL && strcmp(known->mark, o->mark) != 0;
    if (known != NULL && (o->changed || known->schema != NULL)) {
        return true;
    }
    if (known == NULL && s->approved.n >= APPROVALS_MAX) {
        return false;
    }
    put(s, str_of(o->tool), str_of(o->description), str_of(o->mark), xstrdup(o->schema));
    *news = true;
    return true;
}

void mcp__approve(struct mcp_server *s, const struct mcp_offer *o)
{
    put(s, str_of(o->tool), str_of(o->description), str_of(o->mark), xstrdup(o->schema));
    mcp__approvals_write(s);
}

static void on_written(void *arg, int status, const struct err *e)
{
    struct mcp_server *s = arg;
    (void)status; // what is not kept is asked again after a restart
    (void)e;
    assert(s->reading != 0);
    s->reading--;
    if (s->closed) {
        mcp__server_close(s);
    }
}

void mcp__approvals_write(struct mcp_server *s)
{
    assert(s->document != NULL);
    struct buf text = {.max = SIZE_MAX};
    struct str tool;
    void *value;
    struct jw w = {.out = &text};
    jw_obj(&w);
    for (size_t at = 0; map_next(&s->approved, &at, &tool, &value);) {
        const struct mcp_approval *it = value;
        jw_key_str(&w, tool);
        jw_obj(&w);
        jw_kstrz(&w, "description", it->description);
        if (it->schema != NULL) {
            jw_key(&w, "schema");
            jw_raw(&w, str_of(it->schema));
        }
        jw_kstrz(&w, "mark", it->mark);
        jw_end_obj(&w);
    }
    jw_end_obj(&w);
    s->reading++;
    store_doc_put(s->all->o.hub->store, str_of(s->document), buf_str(&text), on_written, s);
    buf_fini(&text);
}

void mcp__approvals_free(struct mcp_server *s)
{
    assert(s->reading == 0);
    map_fini_each(&s->approved, approval_free);
    free(s->document);
}
