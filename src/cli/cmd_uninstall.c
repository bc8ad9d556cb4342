// Take the program off this machine, and with --data what it keeps for this user.
//
//     what is there ──> show ──> ask (data only) ──> stop hub and terminals ──> programs ──> data
//
// `make install` leaves a list of what it installed beside the program (lib/afloat/files, paths relative to the
// prefix); only what is on it goes. A package is left to its manager, a build tree to its owner. Data goes by
// one rename first, so that an interrupted removal never looks like a home.

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
    char *data, *run;  // home and runtime directory; NULL: they stay
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

/// The home of this user, if it is one: a directory that a hub has used.
static int find_data(struct uninstall *u)
{
    const struct home *h = &u->c->home;
    if (access(h->dir, F_OK) != 0) {
        return 0;
    }
    if (access(h->lock, F_OK) != 0) {
        return err_set(&u->e, ERR_DENIED,
                       "'%s' is left alone: no hub has used it; delete it by hand if it is yours",
                       h->dir);
    }
    u->data = xstrdup(h->dir);
    if (path_below(h->dir, h->runtime) == NULL && access(h->runtime, F_OK) == 0) {
        u->run = xstrdup(h->runtime);
    }
    return 0;
}

// ---- telling and asking ----------------------------------------------------------------------

static void write_list(struct jw *w, const char *key, const char *const *paths, size_t n)
{
    jw_karr(w, key);
    for (size_t i = 0; i < n; i++) {
        if (paths[i] != NULL) {
            jw_strz(w, paths[i]);
        }
    }
    jw_end_arr(w);
}

static void tell(const struct uninstall *u, bool dry)
{
    const char *const data[] = {u->data, u->run};
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
        write_list(&w, "programs", (const char *const *)u->files.p, n);
        write_list(&w, "data", data, ARRAY_LEN(data));
        jw_kstrz(&w, "left", u->how);
        jw_end_obj(&w);
        out_add(&u->c->out, STR("\n"));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out_addf(&u->c->out, "%s\n", u->files.p[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(data); i++) {
        if (data[i] != NULL) {
            out_addf(&u->c->out, "%s/\n", data[i]);
        }
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
    char *question = xasprintf("Delete %s with all sessions, plugins, bots and secrets?", u->data);
    char *needs =
        xasprintf("this deletes '%s' and needs a yes on a terminal, or '--force'", u->data);
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
        rc = rc == 0 && u.run != NULL ? remove_tree(&u, u.run) : rc;
        rc = rc == 0 && u.data != NULL ? remove_tree(&u, u.data) : rc;
    }
    if (rc == 0 && code == EXIT_OK) {
        tell(&u, dry);
    }
    code = rc < 0 ? cli__fail(c, &u.e) : code;
    vec_fini_each(&u.files, free);
    free(u.dir);
    free(u.data);
    free(u.run);
    return code;
}
