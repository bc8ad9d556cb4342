// Which plugins and improvements a session has: the hub's modules always, plugins by project, list and `required`,
// an improvement where its scope says.

#include "plugin/sessions.h"

#include "plugin/improvements.h"
#include "plugin/plugins.h"
#include "store/tree.h"

enum agent_reach plugin_view_reach(void *view, const struct gen_unit *u, const char *session,
                                   const char *working_dir)
{
    const struct plugin_view *v = view;
    struct str name = str_of(u->name);
    struct plugin_row row;
    if (str_starts(name, IMPROVEMENTS)) {
        if (v->improvements == NULL) {
            return AGENT_NEVER;
        }
        name = str_from(name, strlen(IMPROVEMENTS));
        struct scope s = scopes_get(improvements_scopes(v->improvements), name);
        // a call outside of sessions has an empty `session`
        bool here = s.of[0] != '\0' && strcmp(s.of, session) == 0;
        return s.kind == SCOPE_ALL ? AGENT_LISTED : here ? AGENT_ALWAYS : AGENT_NEVER;
    }
    if (v->plugins == NULL || !plugins_find(v->plugins, name, &row)) {
        return AGENT_ALWAYS; // a module of the hub
    }
    if (!plugins_reaches(v->plugins, name, working_dir)) {
        return AGENT_NEVER;
    }
    return row.required ? AGENT_ALWAYS : AGENT_LISTED;
}

bool plugin_view_known(void *view, struct str name)
{
    const struct plugin_view *v = view;
    struct plugin_row row;
    if (str_starts(name, IMPROVEMENTS)) {
        return gen_state_of(v->engine, name) != GEN_REMOVED;
    }
    return v->plugins != NULL && plugins_find(v->plugins, name, &row);
}

const char *plugin_view_required(void *view, size_t i, const char *working_dir)
{
    const struct plugin_view *v = view;
    size_t n = v->plugins != NULL ? plugins_count(v->plugins) : 0;
    for (size_t k = 0; k < n; k++) {
        struct plugin_row row = plugins_at(v->plugins, k);
        bool ours =
            row.project == NULL || plugins_reaches(v->plugins, str_of(row.name), working_dir);
        if (row.required && ours && i-- == 0) {
            return row.name;
        }
    }
    return NULL;
}

void plugin_view_loaded(void *view, void (*each)(void *each_arg, const char *path), void *each_arg)
{
    const struct plugin_view *v = view;
    size_t n = v->plugins != NULL ? plugins_count(v->plugins) : 0;
    for (size_t i = 0; i < n; i++) {
        struct plugin_row row = plugins_at(v->plugins, i);
        if (row.project == NULL && row.enabled && row.path[0] == '/') {
            each(each_arg, row.path);
        }
    }
}

struct str plugin_view_file(void *view, const struct gen_unit *u, const char *path)
{
    const struct plugin_view *v = view;
    struct plugin_row row;
    if (v->plugins == NULL || !plugins_find(v->plugins, str_of(u->name), &row) ||
        row.tree == NULL) {
        return STR_NULL;
    }
    const struct tree_file *f = tree_find(row.tree, str_of(path));
    return f != NULL ? f->bytes : STR_NULL;
}
