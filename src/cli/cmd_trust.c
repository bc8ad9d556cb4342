// Trusting projects. Works on the file, with or without a hub, and never starts one; a running hub is asked
// to look at the file at once.
//
// What is printed comes from the project and is read before the user decides: names and differences are
// escaped by out_text() and trust_diff().

#include "base/path.h"
#include "cli/call.h"
#include "store/versions.h"
#include "trust/diff.h"
#include "trust/trust.h"

enum { HASH_SHOWN = 12 };

/// Read the file. A damaged one was set aside, which is reported; any other fault ends the command.
static int open_book(struct cli *c, struct trust **t, struct err *e)
{
    int rc = trust_open(t, c->home.dir, e);
    if (rc == ERR_CORRUPT) {
        out_note(&c->out, "%s", e->msg);
        rc = 0;
    }
    return rc;
}

// ---- trust ---------------------------------------------------------------------------------

static void print_items(struct cli *c, const struct trust *t, const struct trust_place *p,
                        const struct trust_scan *s)
{
    static const char *const heads[] = {"KIND", "NAME", "PATH", "HASH", "STATE"};
    struct table table;
    table_init(&table, ARRAY_LEN(heads));
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        table_set_column(&table, i, heads[i], TABLE_KEEP);
    }
    vec_foreach (it, &s->items) {
        struct str state = str_of(trust_state(t, p, it));
        table_add(&table, OUT_PLAIN, str_of(trust_kind_name(it->kind)));
        table_add(&table, OUT_BOLD, str_of(it->name));
        table_add(&table, OUT_PLAIN, str_of(it->path));
        table_add(&table, OUT_DIM,
                  (struct str){it->tree.hash, MIN(strlen(it->tree.hash), HASH_SHOWN)});
        table_add(&table, show_tint(state), state);
    }
    table_print(&table, &c->out);
    table_fini(&table);
    vec_foreach (it, &s->items) {
        if (it->kind != TRUST_ENV || it->error != NULL) {
            continue;
        }
        out_add(&c->out, STR("env covers:")); // more files than the one that names it
        vec_foreach (f, &it->tree.files) {
            out_add(&c->out, STR(" "));
            out_text(&c->out, str_of(f->path));
        }
        out_add(&c->out, STR("\n"));
    }
}

/// What differs from the version trusted last, item by item.
static void print_diff(struct cli *c, const struct trust *t, const struct trust_place *p,
                       const struct trust_scan *s)
{
    char *dir = path_join(c->home.dir, "state/versions");
    vec_foreach (it, &s->items) {
        const char *last = trust_last(t, p, it->kind, it->path);
        if (it->error != NULL || trust_ask(t, p, it->kind, it->path, it->tree.hash) == TRUST_YES) {
            continue;
        }
        struct tree before = {0};
        bool kept = last != NULL && versions_get(&before, dir, last, NULL) == 0;
        if (last != NULL && !kept) {
            out_note(&c->out, "%s '%s': the trusted version is not kept, all of it is shown",
                     trust_kind_name(it->kind), it->path);
        }
        trust_diff(&c->out.data, it->kind == TRUST_ENV ? "" : it->path, kept ? &before : NULL,
                   &it->tree);
        tree_fini(&before);
    }
    free(dir);
}

/// `follows`: the place is followed, be it by this command or by an earlier one.
static void say_outcome(struct cli *c, const struct trust_scan *s, bool follows, bool dry_run)
{
    out_note(&c->out, "%s",
             s->items.n == 0
                 ? "nothing to trust here yet: no plugins, environment, settings, skills, "
                   "bots or AGENTS.md"
                 : "plugins of a trusted project run in the hub with your permissions, its "
                   "environment in your shells");
    if (dry_run) {
        out_note(&c->out, "%s",
                 follows ? "nothing was changed; this project is trusted, later changes included"
                         : "nothing was changed; 'afloat trust' trusts it");
    } else if (follows) {
        out_note(&c->out, "trusted, later changes included; 'afloat untrust' takes it back");
    } else if (s->items.n != 0) {
        out_note(&c->out, "trusted as it is now; later changes wait for the next 'afloat trust'");
    }
}

static int give(struct cli *c, struct trust *t, const struct trust_place *p,
                const struct trust_scan *s, struct err *e)
{
    bool follow = args_has(&c->args, FLAG_FOLLOW);
    bool dry_run = args_has(&c->args, FLAG_DRY_RUN) || args_has(&c->args, FLAG_DIFF);
    int code = EXIT_OK;
    if (c->json) {
        struct buf body = {.max = SIZE_MAX};
        trust_write_scan(t, p, s, follow, dry_run, &body);
        out_body(&c->out, buf_str(&body));
        buf_fini(&body);
    } else {
        out_text(&c->out, str_of(p->root));
        if (strcmp(p->root, p->place) != 0) {
            out_add(&c->out, STR(" (a worktree of "));
            out_text(&c->out, str_of(p->place));
            out_add(&c->out, STR(")"));
        }
        out_add(&c->out, STR("\n"));
        print_items(c, t, p, s);
        if (args_has(&c->args, FLAG_DIFF)) {
            print_diff(c, t, p, s);
        }
    }
    if (!dry_run && (s->items.n != 0 || follow)) {
        int rc = home_prepare(&c->home, e);
        if (rc == 0) {
            rc = trust_add(t, p, s->items.p, s->items.n, follow, e);
        }
        if (rc < 0) {
            return cli__fail(c, e);
        }
        ask_nudge(c, OP_TRUST_LIST, "change");
    }
    say_outcome(c, s, trust_follows(t, p), dry_run);
    vec_foreach (it, &s->items) {
        if (it->error != NULL) {
            out_error(&c->out, "cannot trust %s '%s': %s", trust_kind_name(it->kind), it->path,
                      it->error);
            code = EXIT_FAILED;
        }
    }
    return code;
}

int cmd_trust(struct cli *c)
{
    const char *dir = args_word(&c->args, 0);
    struct trust_place p;
    struct trust_scan s = {0};
    struct trust *t = NULL;
    struct err e = {0};
    int rc = trust_place_of(&p, c->home.dir, dir != NULL ? dir : ".", &e);
    if (rc == 0) {
        rc = open_book(c, &t, &e);
    }
    if (rc == 0) {
        rc = trust_scan_in(&s, p.root, dir != NULL ? dir : ".", &e);
    }
    int code = rc == 0 ? give(c, t, &p, &s, &e) : cli__fail(c, &e);
    trust_scan_fini(&s);
    trust_close(t);
    trust_place_fini(&p);
    return code;
}

// ---- list and untrust ----------------------------------------------------------------------

int cmd_trust_list(struct cli *c)
{
    const struct layout places = {"places",
                                  COLUMNS(COL("PATH", ID, NULL),
                                          COL("TRUSTED", WORD, "{follow?followed:by content}"),
                                          COL("ITEMS", WORD, "{#items} item{#items=1?:s}")),
                                  "no trusted projects; trust one with 'afloat trust'"};
    struct trust *t;
    struct buf body = {.max = SIZE_MAX};
    struct err e = {0};
    if (open_book(c, &t, &e) < 0) {
        trust_close(t);
        return cli__fail(c, &e);
    }
    trust_write(t, &body);
    show_local(c, &places, buf_str(&body));
    buf_fini(&body);
    trust_close(t);
    return EXIT_OK;
}

int cmd_untrust(struct cli *c)
{
    const char *dir = args_word(&c->args, 0);
    struct trust_place p;
    struct trust *t = NULL;
    struct err e = {0};
    int rc = trust_place_named(&p, c->home.dir, dir != NULL ? dir : ".", &e);
    rc = rc == 0 ? open_book(c, &t, &e) : rc;
    rc = rc == 0 ? trust_remove(t, &p, &e) : rc;
    if (rc == 0) {
        ask_nudge(c, OP_TRUST_LIST, "change");
        if (c->json) {
            struct buf body = {.max = SIZE_MAX};
            trust_write_removed(&p, &body);
            out_body(&c->out, buf_str(&body));
            buf_fini(&body);
        }
        out_note(&c->out, "'%s' is no longer trusted", p.place);
    }
    int code = rc == 0 ? EXIT_OK : cli__fail(c, &e);
    trust_close(t);
    trust_place_fini(&p);
    return code;
}
