// What the user has seen of a server's tools.
//
// A server can change what a tool says of itself after the user has come to trust it, and a description is an
// instruction that every model follows. So the first description and schema of each tool are kept. One that differs
// later is not shown to the model: the kept description stays until a call of the tool was allowed by the user, who
// is shown the difference with the question.
//
// Kept in state/mcp/NAME-HASH.json, an object {tool: {description, mark}}; the hash is of what the server *is*
// (its program or address), so that a server which the user replaces begins anew.

#include "mcp/server_int.h"
#include "store/store.h"

enum { HASH_PART = 8 };

static char *document_of(const struct mcp_spec *s)
{
    struct buf what = {.max = SIZE_MAX};
    struct arena a = {0};
    uint8_t digest[SHA256_SIZE];
    char hex[SHA256_HEX];
    // an editor's server is the same one in all of its sessions
    buf_addf(&what, "%s\n%s%s\n%s", s->name, s->project != NULL ? s->project : "",
             s->session != NULL ? "an editor's" : "", s->url != NULL ? s->url : s->command);
    for (size_t i = 0; s->url == NULL && s->args[i] != NULL; i++) {
        buf_addf(&what, "\n%s", s->args[i]);
    }
    sha256_of(buf_str(&what), digest);
    sha256_hex(digest, hex);
    struct str name = mcp_name(&a, s->name, STR_NULL);
    char *path = xasprintf("state/mcp/" STR_FMT "%.*s.json", STR_ARG(name), HASH_PART, hex);
    arena_fini(&a);
    buf_fini(&what);
    return path;
}

const struct mcp_approval *mcp__approval(const struct mcp_server *s, const char *tool)
{
    vec_foreach (it, &s->approved) {
        if (strcmp(it->tool, tool) == 0) {
            return it;
        }
    }
    return NULL;
}

static void add(struct mcp_server *s, struct str tool, struct str description, struct str mark)
{
    struct mcp_approval a = {.tool = str_dup(tool), .description = str_dup(description)};
    snprintf(a.mark, sizeof a.mark, STR_FMT, STR_ARG(mark));
    vec_push(&s->approved, a);
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
            add(s, m->key, json_get_text(&m->value, "description"),
                json_get_text(&m->value, "mark"));
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
    s->document = document_of(s->spec);
    s->reading++;
    store_doc_get(s->all->o.store, str_of(s->document), on_read, s);
}

bool mcp__approve_new(struct mcp_server *s, struct mcp_offer *o)
{
    const struct mcp_approval *known = mcp__approval(s, o->tool);
    o->changed = known != NULL && strcmp(known->mark, o->mark) != 0;
    if (known == NULL) {
        add(s, str_of(o->tool), str_of(o->description), str_of(o->mark));
    }
    return known == NULL;
}

void mcp__approve(struct mcp_server *s, const struct mcp_offer *o)
{
    vec_foreach (it, &s->approved) {
        if (strcmp(it->tool, o->tool) == 0) {
            free(it->description);
            it->description = xstrdup(o->description);
            memcpy(it->mark, o->mark, sizeof it->mark);
        }
    }
    mcp__approvals_write(s);
}

static void on_written(void *arg, int status, const struct err *e)
{
    struct mcp_server *s = arg;
    (void)status; // what is not kept is asked again after a restart
    (void)e;
    s->reading--;
    if (s->closed) {
        mcp__server_close(s);
    }
}

void mcp__approvals_write(struct mcp_server *s)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    vec_foreach (it, &s->approved) {
        jw_kobj(&w, it->tool);
        jw_kstrz(&w, "description", it->description);
        jw_kstrz(&w, "mark", it->mark);
        jw_end_obj(&w);
    }
    jw_end_obj(&w);
    s->reading++;
    store_doc_put(s->all->o.store, str_of(s->document), buf_str(&text), on_written, s);
    buf_fini(&text);
}

void mcp__approvals_free(struct mcp_server *s)
{
    vec_foreach (it, &s->approved) {
        free(it->tool);
        free(it->description);
    }
    vec_fini(&s->approved);
    free(s->document);
}
