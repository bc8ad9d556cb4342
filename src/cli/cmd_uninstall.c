// Take the program off this machine, and with --data what it keeps for this user.
//
//     what is there ──> show ──> ask (data only) ──> stop hub and terminals ──> programs ──> data
//
// `make install` leaves a list of what it installed beside the program (lib/afloat/files, paths relative to the
// prefix); only what is on it goes. A package is left to its manager, a build tree to its owner. Data goes by
// one rename first, so that an interrupted removal never looks like a home. A home that is a link goes with what it
// leads to. A runtime directory outside the home may hold files of others: only ours go.

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"
#include "cli/show.h"
#include "client/holder.h"

enum { LIST_MAX = 1 << 20 };

struct uninstall {
    struct cli *c;
    char *dir;         // of the program that runs
    vec(char *) files; // of an installation, absolute; children before their directories
    const char *how;   // why the programs stay; NULL: they go
    bool systemd;      // listens for the hub
    char *data;        // the home, links followed; NULL: it stays
    const char *link;  // leads to it; borrowed; NULL: nothing does
    char *run;         // the runtime directory, when it is outside the home and holds files of ours
    vec(char *) gone;  // what of data goes, to be shown
    struct err e;
};

// ---- what is there ---------------------------------------------------------------------------

/// Read the list of an installation.
static void find_programs(struct uninstall *u)
{
    struct buf list = {.max = LIST_MAX};
    char *program = path_own_program(NULL);
    u->dir = str_dup(path_dir(str_of(program)));
    free(program);
    char *file = path_join(u->dir, "files"), *prefix = xasprintf("%s/../..", u->dir);
    char *root = path_clean(prefix);
    if (path_read(file, &list, NULL) == 0) {
        struct str rest = buf_str(&list);
        while (rest.n != 0) {
            char *rel = str_dup(str_cut(&rest, '\n'));
            vec_push(&u->files, path_join(root, rel));
            free(rel);
        }
        u->how = access(root, W_OK) == 0 && access(u->dir, W_OK) == 0
                     ? NULL
                     : "they belong to root: run 'sudo afloat uninstall'";
    } else {
        u->how = str_starts(str_of(u->dir), "/usr/lib/")
                     ? "a package installed them: run 'apt remove afloat'"
                     : "this is a build tree; delete it yourself to remove them";
    }
    buf_fini(&list);
    free(root);
    free(prefix);
    free(file);
}

/// All that the hub, its clients and systemd make in the runtime directory.
static const char *const run_names[] = {"hub.sock", "hub.pid", "start.lock", HOLDER_SYSTEMD,
                                        "pty",      "shell",   "rc",         "hook"};

static void find_run(struct uninstall *u)
{
    char *run = path_real(u->c->home.runtime);
    for (size_t i = 0; path_below(u->data, run) == NULL && i < ARRAY_LEN(run_names); i++) {
        char *path = path_join(run, run_names[i]);
        if (path_exists(path)) {
            vec_push(&u->gone, xstrdup(path));
            free(u->run);
            u->run = xstrdup(run);
        }
        free(path);
    }
    free(run);
}

/// The home of this user, if it is one: a directory that a hub has used. `fsck` leaves a lock in any directory.
static int find_data(struct uninstall *u)
{
    const struct home *h = &u->c->home;
    struct stat st;
    if (access(h->dir, F_OK) != 0) {
        return 0;
    }
    if (access(h->lock, F_OK) != 0 || access(h->log, F_OK) != 0) {
        return err_set(&u->e, ERR_DENIED,
                       "'%s' is left alone: no hub has used it; delete it by hand if it is yours",
                       h->dir);
    }
    u->data = realpath(h->dir, NULL);
    if (u->data == NULL) {
        return err_sys(&u->e, "cannot find '%s'", h->dir);
    }
    vec_push(&u->gone, xstrdup(u->data));
    if (lstat(h->dir, &st) == 0 && S_ISLNK(st.st_mode)) {
        u->link = h->dir;
        vec_push(&u->gone, xstrdup(h->dir));
    }
    find_run(u);
    return 0;
}

// ---- telling and asking ----------------------------------------------------------------------

static void tell(const struct uninstall *u, bool dry)
{
    size_t n = u->how == NULL ? u->files.n : 0;
    struct jw w;
    if (u->systemd) {
        out_note(&u->c->out, "systemd still listens for the hub: run "
                             "'systemctl --user disable --now afloat.socket'");
    }
    if (u->c->json) {
        jw_init(&w, &u->c->out.data);
        jw_obj(&w);
        jw_kbool(&w, "dry_run", dry);
        jw_kstrs(&w, "programs", (const char *const *)u->files.p, n);
        jw_kstrs(&w, "data", (const char *const *)u->gone.p, u->gone.n);
        jw_kstrz(&w, "left", u->how);
        jw_end_obj(&w);
        out_add(&u->c->out, STR("\n"));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out_addf(&u->c->out, "%s\n", u->files.p[i]);
    }
    vec_foreach (path, &u->gone) {
        out_addf(&u->c->out, "%s\n", *path);
    }
    if (u->how != NULL) {
        out_note(&u->c->out, "the programs in '%s' stay: %s", u->dir, u->how);
    }
    if (u->data == NULL) {
        out_note(&u->c->out, "your data in '%s' stays; '--data' removes it", u->c->home.dir);
    }
}

/// Data is not deleted without a yes.
static int confirm(struct uninstall *u)
{
    if (u->data == NULL || args_has(&u->c->args, FLAG_FORCE)) {
        return 0;
    }
    const char *and = u->run != NULL ? ", and what Afloat made in " : "";
    const char *run = u->run != NULL ? u->run : "";
    char *question =
        xasprintf("Delete %s with all sessions, plugins, bots and secrets%s%s?", u->data, and, run);
    char *needs = xasprintf("this deletes '%s'%s%s and needs a yes on a terminal, or '--force'",
                            u->data, and, run);
    int rc = cli__confirm(u->c, question, needs, &u->e);
    free(question);
    free(needs);
    return rc;
}

// ---- doing -----------------------------------------------------------------------------------

/// Delete a tree, out of sight first. Links are removed, never followed.
static int remove_tree(struct uninstall *u, const char *dir)
{
    assert(dir[0] == '/');
    char *away = xasprintf("%s.removed-%ld", dir, (long)getpid());
    int rc = rename(dir, away) == 0 ? 0 : err_sys(&u->e, "cannot move '%s'", dir);
    rc = rc == 0 ? path_remove_tree(away, &u->e) : rc;
    free(away);
    return rc;
}

static int remove_run(struct uninstall *u)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(run_names); i++) {
        char *path = path_join(u->run, run_names[i]);
        rc = path_remove_tree(path, &u->e);
        free(path);
    }
    if (rc == 0) {
        (void)rmdir(u->run); // it stays while others have files in it
    }
    return rc;
}

static int remove_data(struct uninstall *u)
{
    int rc = u->run != NULL ? remove_run(u) : 0;
    rc = rc == 0 ? remove_tree(u, u->data) : rc;
    if (rc == 0 && u->link != NULL && unlink(u->link) != 0) {
        rc = err_sys(&u->e, "cannot remove '%s'", u->link);
    }
    return rc;
}

int cmd_uninstall(struct cli *c)
{
    struct uninstall u = {.c = c, .systemd = holder_is_systemd(&c->home)};
    bool dry = args_has(&c->args, FLAG_DRY_RUN);
    find_programs(&u);
    int rc = args_has(&c->args, FLAG_DATA) ? find_data(&u) : 0;
    rc = rc == 0 && !dry ? confirm(&u) : rc;
    int code = rc == 0 && !dry ? cli__stop_all(c) : EXIT_OK;
    if (rc == 0 && code == EXIT_OK && !dry) {
        for (size_t i = 0; rc == 0 && u.how == NULL && i < u.files.n; i++) {
            if (remove(u.files.p[i]) != 0 && errno != ENOENT && errno != ENOTEMPTY) {
                rc = err_sys(&u.e, "cannot remove '%s'", u.files.p[i]);
            }
        }
        rc = rc == 0 && u.data != NULL ? remove_data(&u) : rc;
    }
    if (rc == 0 && code == EXIT_OK) {
        tell(&u, dry);
    }
    code = rc < 0 ? cli__fail(c, &u.e) : code;
    vec_fini_each(&u.files, free);
    vec_fini_each(&u.gone, free);
    free(u.dir);
    free(u.data);
    free(u.run);
    return code;
}
