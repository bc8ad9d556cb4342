// Servers of `.mcp.json` in the projects in which sessions work.
//
//     enter ──────────┐
//     file saved ─────┼──> lane: file and trust book ──> trusted? its servers ──> a run of the engine
//     trust changed ──┘
//
// A file that is not trusted names no servers, which is logged once until it changes. The servers of a project end
// when the last session leaves it. One thread reads, in order, so the last reading is the newest.

#include <assert.h>

#include "base/log.h"
#include "base/path.h"
#include "config/home.h"
#include "loop/work.h"
#include "mcp/server_int.h"
#include "trust/settings.h"
#include "trust/stays.h"
#include "trust/trust.h"
#include "watch/watch.h"

struct project {
    struct mcp_projects *all;
    char *root;
    char *text;          // trusted; NULL: none
    char *refused;       // what was said to be not trusted; NULL
    struct watch *watch; // NULL: it could not be watched
};

struct mcp_projects {
    struct mcp *m;
    struct lane *lane;
    vec(struct project *) list;
    struct stays stays;
    bool closed;
};

/// One reading, on its way to the lane and back.
struct reading {
    struct mcp_projects *p;
    char *dir;
    struct trust_settings found;
    bool enters;
    loop_fn *done;
    void *arg;
};

static void read_again(struct project *pr);

static void on_saved(struct watch *w, const struct watch_batch *batch, void *arg)
{
    (void)w;
    if (!batch->first) {
        read_again(arg);
    }
}

static struct project *open_project(struct mcp_projects *p, const char *root)
{
    struct project *pr = xcalloc(1, sizeof *pr);
    struct err e = {0};
    struct watch_opts o = {.path = root, .pattern = TRUST_MCP_PATH};
    *pr = (struct project){.all = p, .root = xstrdup(root)};
    vec_push(&p->list, pr);
    if (watch_open(&pr->watch, p->m->o.watcher, &o, on_saved, pr, &e) < 0) {
        log_warn(LOG_CONFIG, "cannot watch '%s/" TRUST_MCP_PATH "': %s", root, e.msg);
    }
    return pr;
}

static void free_project(struct project *pr)
{
    watch_close(pr->watch);
    free(pr->text);
    free(pr->refused);
    free(pr->root);
    free(pr);
}

static struct project *find(const struct mcp_projects *p, const char *root)
{
    vec_foreach (it, &p->list) {
        if (strcmp((*it)->root, root) == 0) {
            return *it;
        }
    }
    return NULL;
}

// ---- directories --------------------------------------------------------------------------------

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void mcp__roots(const struct mcp_server *s, struct buf *out)
{
    const struct mcp_spec *spec = s->spec;
    const struct stays *stays = &s->all->projects->stays;
    vec(char *) dirs = {0};
    size_t at = 0;
    struct str dir;
    void *value;
    if (spec->project != NULL || spec->session != NULL) {
        vec_push(&dirs, xstrdup(spec->project != NULL ? spec->project : spec->cwd));
    } else { // the user's: wherever sessions work
        while (map_next(&stays->dirs, &at, &dir, &value)) {
            vec_push(&dirs, str_dup(dir));
        }
    }
    if (dirs.n != 0) {
        qsort(dirs.p, dirs.n, sizeof *dirs.p, by_text);
    }
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_karr(&w, "roots");
    vec_foreach (it, &dirs) {
        jw_obj(&w);
        jw_key(&w, "uri");
        jw_strf(&w, "file://%s", *it);
        jw_kstr(&w, "name", path_base(str_of(*it)));
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    vec_fini_each(&dirs, free);
}

/// The first session has entered a directory, or the last one has left it.
static void tell_roots(struct mcp *m)
{
    vec_foreach (it, &m->servers) {
        const struct mcp_server *s = *it;
        if (s->peer != NULL && s->spec->project == NULL && s->spec->session == NULL) {
            mcp_peer_tell(s->peer, "notifications/roots/list_changed");
        }
    }
}

// ---- reading ------------------------------------------------------------------------------------

/// Log once that a file is not trusted, or is no list of servers.
static void note_refused(struct project *pr, const char *text, const char *why)
{
    if (pr->refused == NULL || strcmp(pr->refused, text) != 0) {
        log_warn(LOG_CONFIG, "'%s/" TRUST_MCP_PATH "' starts no server: %s", pr->root, why);
        free(pr->refused);
        pr->refused = xstrdup(text);
    }
}

static void take(struct project *pr, const struct trust_settings *found)
{
    mcp_specs specs = {0};
    struct err e = {0};
    free(pr->text);
    pr->text = NULL;
    if (found->text == NULL) {
        return;
    }
    if (!found->trusted) {
        note_refused(pr, found->text, "it is not trusted; look at it, then run 'afloat trust'");
    } else if (mcp_specs_of_file(&specs, pr->all->m->o.hub->config->now, pr->root,
                                 str_of(found->text), &e) < 0) {
        note_refused(pr, found->text, e.msg);
    } else {
        pr->text = xstrdup(found->text);
    }
    vec_fini_each(&specs, mcp_spec_free);
}

static void work(void *arg) // on the lane
{
    struct reading *r = arg;
    trust_servers_read(&r->found, r->p->m->o.hub->home->dir, r->dir);
}

static void on_read(void *arg)
{
    struct reading *r = arg;
    struct mcp_projects *p = r->p;
    const char *root = p->closed ? NULL : r->found.root;
    struct project *pr = root != NULL ? find(p, root) : NULL;
    if (r->enters && !p->closed) {
        size_t before = p->stays.dirs.n;
        stays_enter(&p->stays, r->dir, root);
        if (p->stays.dirs.n != before) {
            tell_roots(p->m);
        }
        pr = pr == NULL && root != NULL ? open_project(p, root) : pr;
    }
    if (pr != NULL) {
        take(pr, &r->found);
    }
    if (r->done != NULL) {
        mcp__wait(p->m, &(struct mcp_place){.dir = r->dir}, r->done, r->arg);
    } else if (!p->closed) {
        mcp__changed(p->m);
    }
    trust_settings_fini(&r->found);
    free(r->dir);
    free(r);
}

static void start(struct mcp_projects *p, const char *dir, bool enters, loop_fn *done, void *arg)
{
    struct reading *r = xcalloc(1, sizeof *r);
    *r = (struct reading){.p = p, .dir = xstrdup(dir), .enters = enters, .done = done, .arg = arg};
    work_submit(p->lane, 0, work, on_read, r);
}

static void read_again(struct project *pr)
{
    start(pr->all, pr->root, false, NULL, NULL);
}

static void on_trust(const struct trust *t, void *arg)
{
    struct mcp_projects *p = arg;
    (void)t;
    vec_foreach (it, &p->list) {
        read_again(*it);
    }
}

struct mcp_projects *mcp__projects_open(struct mcp *m)
{
    struct mcp_projects *p = xcalloc(1, sizeof *p);
    p->m = m;
    p->lane = lane_open(m->o.hub->loop, "mcp-projects", 1);
    stays_init(&p->stays);
    trust_listen(m->o.hub->trust, on_trust, p);
    return p;
}

void mcp__projects_close(struct mcp_projects *p)
{
    assert(!p->closed);
    p->closed = true;
    trust_unlisten(p->m->o.hub->trust, on_trust, p);
    vec_fini_each(&p->list, free_project);
    lane_close(p->lane);
}

void mcp__projects_free(struct mcp_projects *p)
{
    stays_fini(&p->stays);
    free(p);
}

void mcp__projects_specs(const struct mcp_projects *p, mcp_specs *out)
{
    vec_foreach (it, &p->list) {
        const struct project *pr = *it;
        if (pr->text != NULL) {
            (void)!mcp_specs_of_file(out, p->m->o.hub->config->now, pr->root, str_of(pr->text),
                                     NULL);
        }
    }
}

void mcp_enter(struct mcp *m, const char *dir, loop_fn *done, void *arg)
{
    if (m->stopped) {
        mcp__wait(m, &(struct mcp_place){.dir = dir}, done, arg);
    } else {
        start(m->projects, dir, true, done, arg);
    }
}

void mcp_leave(struct mcp *m, const char *dir)
{
    struct mcp_projects *p = m->projects;
    if (!p->closed) {
        size_t before = p->stays.dirs.n;
        stays_leave(&p->stays, dir);
        if (p->stays.dirs.n != before) {
            tell_roots(m);
        }
        for (size_t i = p->list.n; i-- > 0;) {
            struct project *pr = p->list.p[i];
            if (!stays_has(&p->stays, pr->root)) {
                vec_remove(&p->list, i);
                free_project(pr);
            }
        }
        mcp__changed(m);
    }
}
