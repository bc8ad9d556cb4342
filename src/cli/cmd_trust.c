// Trusting projects. Works on the file, with or without a hub, and never starts one; a hub that runs is
// told at once.
//
// What is printed comes from the project and is read before the user decides: names and differences go
// through the escapes of out_text() and trust_diff().

#include "base/path.h"
#include "cli/call.h"
#include "store/versions.h"
#include "trust/diff.h"
#include "trust/trust.h"

enum { HASH_SHOWN = 12 };

/// Read the book. One that is damaged was set aside, which is said; any other fault ends the command.
static int open_book(struct cli *c, struct trust **t, struct err *e)
{
    int rc = trust_open(t, c->home.dir, e);
    if (rc == ERR_CORRUPT) {
        out_note(&c->out, "%s", e->msg);
        rc = 0;
    }
    return rc;
}

/// A running hub sees the file change by itself; asking it to list makes it look now, so that whatever
/// is typed next finds it done.
static void tell_hub(struct cli *c)
{
    struct client_peer hub = {.socket = c->home.socket};
    struct client_request r = {.method = op_method_name(ops[OP_TRUST_LIST].method),
                               .path = ops[OP_TRUST_LIST].path};
    struct client_answer a;
    struct err e;
    client_answer_init(&a);
    int rc = client_call(&hub, &r, &a, &e);
    if (rc < 0 && rc != ERR_UNREACHABLE) {
        out_note(&c->out, "the hub did not answer (%s); it will see the change by itself", e.msg);
    }
    client_answer_fini(&a);
}

// ---- trust ---------------------------------------------------------------------------------

static void print_items(struct cli *c, const struct trust *t, const struct trust_place *p,
                        const struct trust_scan *s)
{
    struct table table;
    table_init(&table, 5);
    vec_foreach (it, &s->items) {
        const char *state = trust_state(t, p, it);
        table_add(&table, OUT_PLAIN, str_of(trust_kind_name(it->kind)));
        table_add(&table, OUT_BOLD, str_of(it->name));
        table_add(&table, OUT_PLAIN, str_of(it->path));
        table_add(&table, OUT_DIM,
                  (struct str){it->tree.hash, MIN(strlen(it->tree.hash), HASH_SHOWN)});
        table_add(&table, show_tint(str_of(state)), str_of(state));
    }
    table_print(&table, &c->out);
    table_fini(&table);
}

/// The environment is more than the file that names it.
static void print_env_files(struct cli *c, const struct trust_scan *s)
{
    vec_foreach (it, &s->items) {
        if (it->kind == TRUST_ENV && it->error == NULL) {
            out_addf(&c->out, "env covers:");
            vec_foreach (f, &it->tree.files) {
                out_addf(&c->out, " ");
                out_text(&c->out, str_of(f->path));
            }
            out_addf(&c->out, "\n");
        }
    }
}

static unsigned say_unreadable(struct cli *c, const struct trust_scan *s)
{
    unsigned n = 0;
    vec_foreach (it, &s->items) {
        if (it->error != NULL) {
            out_error(&c->out, "cannot trust %s '%s': %s", trust_kind_name(it->kind), it->path,
                      it->error);
            n++;
        }
    }
    return n;
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

static void print_plain(struct cli *c, const struct trust *t, const struct trust_place *p,
                        const struct trust_scan *s)
{
    out_text(&c->out, str_of(p->root));
    if (strcmp(p->root, p->place) != 0) {
        out_addf(&c->out, " (a worktree of ");
        out_text(&c->out, str_of(p->place));
        out_addf(&c->out, ")");
    }
    out_addf(&c->out, "\n");
    print_items(c, t, p, s);
    print_env_files(c, s);
    if (args_has(&c->args, FLAG_DIFF)) {
        print_diff(c, t, p, s);
    }
}

static void say_outcome(struct cli *c, const struct trust_scan *s, bool follow, bool dry_run)
{
    if (s->items.n == 0) {
        out_note(&c->out, "nothing to trust here yet: no plugins, environment, settings, skills, "
                          "bots or AGENTS.md");
    } else {
        out_note(&c->out, "Lua of a trusted project runs in the hub with your rights, and its "
                          "environment in your shells");
    }
    if (dry_run) {
        out_note(&c->out, "nothing was changed; 'afloat trust' trusts it");
    } else if (follow) {
        out_note(&c->out, "trusted, whatever it will hold; 'afloat untrust' takes it back");
    } else if (s->items.n != 0) {
        out_note(&c->out, "trusted as it is now; what changes later waits for the next "
                          "'afloat trust'");
    }
}

static int give(struct cli *c, struct trust *t, const struct trust_place *p,
                const struct trust_scan *s, struct err *e)
{
    bool follow = args_has(&c->args, FLAG_FOLLOW);
    bool dry_run = args_has(&c->args, FLAG_DRY_RUN) || args_has(&c->args, FLAG_DIFF);
    struct buf body;
    buf_init(&body, SIZE_MAX);
    trust_write_scan(t, p, s, follow, dry_run, &body);
    if (c->json) {
        out_body(&c->out, buf_str(&body));
    } else {
        print_plain(c, t, p, s);
    }
    buf_fini(&body);
    if (!dry_run && (s->items.n != 0 || follow)) {
        int rc = home_prepare(&c->home, e);
        if (rc == 0) {
            rc = trust_add(t, p, s->items.p, s->items.n, follow, e);
        }
        if (rc < 0) {
            return cli__fail(c, e);
        }
        tell_hub(c);
    }
    say_outcome(c, s, follow, dry_run);
    return say_unreadable(c, s) == 0 ? EXIT_OK : EXIT_FAILED;
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
        rc = trust_scan(&s, p.root, &e);
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
    struct buf body;
    struct err e = {0};
    if (open_book(c, &t, &e) < 0) {
        trust_close(t);
        return cli__fail(c, &e);
    }
    buf_init(&body, SIZE_MAX);
    trust_write(t, &body);
    show_local(c, &places, buf_str(&body));
    buf_fini(&body);
    trust_close(t);
    return EXIT_OK;
}

static int take_back(struct cli *c, struct trust *t, const struct trust_place *p, struct err *e)
{
    int rc = trust_remove(t, p, e);
    if (rc < 0) {
        return cli__fail(c, e);
    }
    tell_hub(c);
    if (c->json) {
        struct buf body;
        buf_init(&body, SIZE_MAX);
        trust_write_removed(p, &body);
        out_body(&c->out, buf_str(&body));
        buf_fini(&body);
    }
    out_note(&c->out, "'%s' is no longer trusted", p->place);
    return EXIT_OK;
}

int cmd_untrust(struct cli *c)
{
    const char *dir = args_word(&c->args, 0);
    struct trust_place p;
    struct trust *t = NULL;
    struct err e = {0};
    int rc = trust_place_named(&p, c->home.dir, dir != NULL ? dir : ".", &e);
    if (rc == 0) {
        rc = open_book(c, &t, &e);
    }
    int code = rc == 0 ? take_back(c, t, &p, &e) : cli__fail(c, &e);
    trust_close(t);
    trust_place_fini(&p);
    return code;
}
