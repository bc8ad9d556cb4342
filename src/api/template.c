// Templates: files that come with the program, listed, shown and installed (template/template.h). Files are
// touched on a thread; a reload follows, so that what was installed is live in the answer.

#include "template/template.h"

#include <errno.h>

#include "api/handlers.h"
#include "api/plugin_int.h"
#include "base/time.h"
#include "loop/work.h"
#include "trust/place.h"

/// One installation on its way, in the arena of the call.
struct installation {
    struct op_call *call;
    const struct template *t;
    const char *as;    // NULL when the template has no name to choose
    const char *dir;   // where the user is; of a project's template
    const char *root;  // that it is installed in
    const char *trash; // for what is in the way; NULL: nothing may be
    struct err e;
    int rc;
};

// ---- reading ---------------------------------------------------------------------------------

/// The members of a template that lists and `show` have. `whole` adds what its files hold.
static void write_row(const struct template *t, bool whole, struct jw *w)
{
    const struct shipped *f;
    struct buf next = {.max = SIZE_MAX};
    jw_obj(w);
    jw_kstrz(w, "name", t->name);
    jw_kstrz(w, "description", t->description);
    jw_kstrz(w, "target", t->project ? "project" : "home");
    jw_kstrz(w, "as", t->as);
    jw_karr(w, "files");
    for (size_t i = 0; (f = template_file(t, i)) != NULL; i++) {
        struct buf text = {.max = SIZE_MAX};
        char *path = template_path(t, f, t->as);
        if (whole) {
            template_fill(&text, (struct str){f->text, f->n}, t->as);
            jw_obj(w);
            jw_kstrz(w, "path", path);
            jw_kstr(w, "content", buf_str(&text));
            jw_end_obj(w);
        } else {
            jw_strz(w, path);
        }
        free(path);
        buf_fini(&text);
    }
    jw_end_arr(w);
    template_fill(&next, str_of(t->next), t->as);
    jw_kstr(w, "next", buf_str(&next));
    buf_fini(&next);
    jw_end_obj(w);
}

void op_TEMPLATE_LIST(struct api *api, struct op_call *c)
{
    struct jw *w = op_begin_obj(c);
    const struct template *t;
    (void)api;
    jw_karr(w, "templates");
    for (size_t i = 0; (t = template_at(i)) != NULL; i++) {
        write_row(t, false, w);
    }
    jw_end_arr(w);
    jw_kstrz(w, "next", NULL);
    op_end_obj(c, 200);
}

/// The template of the request; NULL, answered, when there is none.
static const struct template *find(struct op_call *c)
{
    struct str name = api__name(c);
    const struct template *t = template_find(name);
    if (t == NULL) {
        op_fail(c, PROBLEM_NOT_FOUND, "`afloat template list` lists them",
                "Template not found: %.*s", (int)MIN(name.n, 100), name.p);
    }
    return t;
}

void op_TEMPLATE_SHOW(struct api *api, struct op_call *c)
{
    const struct template *t = find(c);
    (void)api;
    if (t != NULL) {
        write_row(t, true, op_begin(c));
        op_end(c, 200);
    }
}

// ---- installing ------------------------------------------------------------------------------

static void on_reloaded(const struct gen_report *r, void *arg)
{
    struct installation *in = arg;
    struct buf out = {.max = API_ANSWER_MAX}, next = {.max = SIZE_MAX};
    const struct shipped *f;
    if (r == NULL) {
        op_fail(in->call, PROBLEM_STOPPING, NULL,
                "the hub is stopping; the files are in their places");
        return;
    }
    struct jw w = {.out = &out};
    jw_obj(&w);
    jw_kstrz(&w, "name", in->t->name);
    jw_karr(&w, "files");
    for (size_t i = 0; (f = template_file(in->t, i)) != NULL; i++) {
        char *path = template_path(in->t, f, in->as);
        jw_strf(&w, "%s/%s", in->root, path);
        free(path);
    }
    jw_end_arr(&w);
    template_fill(&next, str_of(in->t->next), in->as);
    jw_kstr(&w, "next", buf_str(&next));
    jw_key(&w, "report");
    gen_report_write(r, &w);
    jw_end_obj(&w);
    api__answer_kept(in->call->api, in->call, buf_str(&out));
    buf_fini(&next);
    buf_fini(&out);
}

/// On a thread: find the root, write the files.
static void install(void *arg)
{
    struct installation *in = arg;
    struct trust_place place = {0};
    if (in->t->project) {
        in->rc = trust_place_of(&place, in->call->api->o.hub->home->dir, in->dir, &in->e);
        in->root = in->rc == 0 ? arena_strdup(in->call->arena, str_of(place.root)) : NULL;
        trust_place_fini(&place);
    }
    if (in->rc == 0) {
        in->rc = template_install(in->t, in->as, in->root, in->trash, &in->e);
    }
}

static void on_installed(void *arg)
{
    struct installation *in = arg;
    bool conflict = in->rc == ERR_CONFLICT || in->rc == ERR_NOT_FOUND;
    if (in->rc == 0) {
        api__reload(in->call->api, STR_NULL, false, on_reloaded, in);
    } else {
        op_fail(in->call,
                conflict               ? PROBLEM_CONFLICT
                : in->rc == ERR_DENIED ? PROBLEM_FORBIDDEN
                                       : PROBLEM_STORE_FAILED,
                NULL, "%s", in->e.msg);
    }
}

/// The name that the user chose, or the usual one. False, answered, when it cannot be.
static bool choose_name(struct op_call *c, const struct template *t, const char **as)
{
    struct str chosen = json_get_text(c->params, "as");
    *as = t->as;
    if (chosen.n == 0) {
        return true;
    }
    if (t->as == NULL || !plugin_name_valid(chosen)) {
        op_fail(c, t->as == NULL ? PROBLEM_INVALID_BODY : PROBLEM_INVALID_NAME,
                t->as == NULL ? NULL : "a-z first, then a-z, 0-9, '-' and '_'; 64 at most",
                t->as == NULL ? "template '%s' installs files of fixed names; leave out `as`"
                              : "template '%s' cannot be installed under that name",
                t->name);
        return false;
    }
    *as = arena_strdup(c->arena, chosen);
    return true;
}

void op_TEMPLATE_INSTALL(struct api *api, struct op_call *c)
{
    const struct template *t = find(c);
    const char *as;
    if (t == NULL || !choose_name(c, t, &as)) {
        return; // `c` is gone
    }
    const char *dir = arena_strdup(c->arena, json_get_text(c->params, "working_dir"));
    if (t->project && dir[0] != '/') {
        op_fail(c, PROBLEM_INVALID_BODY, NULL,
                "template '%s' is for a project: `working_dir` must be an absolute path in it",
                t->name);
        return;
    }
    if (api->files == NULL || api->engine == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub starts or stops");
        return;
    }
    struct installation *in = arena_alloc(c->arena, sizeof *in);
    *in = (struct installation){
        .call = c, .t = t, .as = as, .dir = dir, .root = api->o.hub->home->dir};
    if (json_bool(json_get(c->params, "force"), false)) {
        in->trash = arena_printf(c->arena, "%s/trash/%lld-%s", api->o.hub->home->dir,
                                 (long long)time_wall_ms(), t->name);
    }
    work_submit(api->files, work_mount_key(t->project ? dir : api->o.hub->home->dir), install,
                on_installed, in);
}
