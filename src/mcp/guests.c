// Servers that a client brings for one session: an editor's.
//
//     editor connects: mcp_lend(session, servers) ──> specs of that session ──> a run of the engine, as for settings
//     it goes, or the session ends: none are left   ──> their units are removed, their processes end
//
// Nothing of them is kept: an editor that comes back brings them again. They are as little trusted as a project's,
// since editors read them from files of the project, too: always in the sandbox, and none of the user's secrets.

#include <assert.h>

#include "mcp/server_int.h"

enum { SERVERS_MAX = 50, NAME_MAX_LEN = 40 };

struct mcp_guest {
    char *session, *dir;
    char *servers; // a JSON array
};

static void guest_free(struct mcp_guest *g)
{
    free(g->session);
    free(g->dir);
    free(g->servers);
    free(g);
}

/// [{name, value}, ...] as the object that settings have.
static void write_pairs(struct jw *w, const char *key, const struct json *list)
{
    jw_kobj(w, key);
    json_foreach_item (it, list) {
        jw_key_str(w, json_get_text(it, "name"));
        jw_value(w, json_get(it, "value"));
    }
    jw_end_obj(w);
}

/// What people call a server, as a name of ours; NULL: nothing is left of it.
static char *clean_name(struct str given)
{
    struct buf name = {.max = NAME_MAX_LEN};
    for (size_t i = 0; i < given.n && name.n < NAME_MAX_LEN; i++) {
        char c = given.p[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
        buf_addc(&name, ok ? c : '-');
    }
    char *out = name.n != 0 ? buf_take(&name, NULL) : NULL;
    buf_fini(&name);
    return out;
}

static void add_spec(const struct mcp *m, const struct mcp_guest *g, const struct json *item,
                     mcp_specs *out)
{
    struct arena a = {0};
    struct buf text = {.max = SIZE_MAX}, more = {.max = SIZE_MAX};
    struct json *table = NULL;
    char *name = clean_name(json_get_text(item, "name"));
    static const char *const same[] = {"command", "args", "url"};
    struct jw w = {.out = &text};
    jw_obj(&w); // as a table of settings would have it
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        if (json_get(item, same[i]) != NULL) {
            jw_kvalue(&w, same[i], json_get(item, same[i]));
        }
    }
    write_pairs(&w, "env", json_get(item, "env"));
    write_pairs(&w, "headers", json_get(item, "headers"));
    jw_end_obj(&w);
    mcp_add_sandbox(&more, m->o.hub->config->now);
    if (name != NULL && json_parse(&table, &a, buf_str(&text), NULL, NULL) == 0) {
        const struct mcp_place place = {.session = g->session, .dir = g->dir};
        vec_push(out, mcp_spec_new(name, &place, table, buf_str(&more)));
    }
    buf_fini(&text);
    buf_fini(&more);
    arena_fini(&a);
    free(name);
}

void mcp__guests_specs(const struct mcp *m, mcp_specs *out)
{
    vec_foreach (it, &m->guests) {
        struct arena a = {0};
        struct json *servers = NULL;
        size_t n = 0;
        if (json_parse(&servers, &a, str_of((*it)->servers), NULL, NULL) == 0) {
            json_foreach_item (item, servers) {
                if (n++ < SERVERS_MAX) {
                    add_spec(m, *it, item, out);
                }
            }
        }
        arena_fini(&a);
    }
}

void mcp__guests_free(struct mcp *m)
{
    vec_fini_each(&m->guests, guest_free);
}

void mcp_lend(struct mcp *m, const char *session, const char *dir, const struct json *servers,
              loop_fn *done, void *arg)
{
    bool changed = false;
    for (size_t i = m->guests.n; i-- > 0;) {
        if (strcmp(m->guests.p[i]->session, session) == 0) {
            guest_free(m->guests.p[i]);
            vec_remove(&m->guests, i);
            changed = true;
        }
    }
    if (servers != NULL && servers->type == JSON_ARR && servers->n != 0 && !m->stopped) {
        struct buf text = {.max = SIZE_MAX};
        struct mcp_guest *g = xcalloc(1, sizeof *g);
        assert(dir != NULL && dir[0] == '/');
        json_write(&text, servers, 0);
        *g = (struct mcp_guest){xstrdup(session), xstrdup(dir), buf_take(&text, NULL)};
        buf_fini(&text);
        vec_push(&m->guests, g);
        changed = true;
    }
    if (done != NULL) {
        mcp__wait(m, &(struct mcp_place){.session = session, .dir = dir}, done, arg);
    } else if (changed) {
        mcp__changed(m);
    }
}
