// Asking whether a project's environment may be used.
//
//     trusted ──> go on
//     else ── terminal ──> [f]ollow [o]nce [n]o [?] ── f, o ──> stored, go on
//          └─ none, n ──> ERR_DENIED with the command to type
//
// Later builds ask the gate alone: a changed file of a place that is not followed is then a failed
// build that says what to type, and the shell keeps what it has.

#include "shell/consent.h"

#include <unistd.h>

#include "base/buf.h"
#include "trust/trust.h"

enum { LINE_MAX_BYTES = 256 };

struct consent {
    char *home, *root;
};

/// What there is to trust, and what is known of it.
struct question {
    struct trust *trust;
    struct trust_place place;
    struct trust_scan scan;
    const struct trust_item *item; // the environment; NULL when the project has none
};

static int question_open(struct question *q, const struct consent *c, struct err *e)
{
    *q = (struct question){0};
    int rc = trust_open(&q->trust, c->home, e);
    if (rc == 0) {
        rc = trust_place_of(&q->place, c->home, c->root, e);
        rc = rc == ERR_NOT_FOUND ? 0 : rc;
    }
    if (rc == 0 && q->place.root != NULL) {
        rc = trust_scan(&q->scan, q->place.root, e);
    }
    for (size_t i = 0; rc == 0 && i < q->scan.items.n; i++) {
        if (q->scan.items.p[i].kind == TRUST_ENV) {
            q->item = &q->scan.items.p[i];
        }
    }
    return rc;
}

static void question_close(struct question *q)
{
    trust_scan_fini(&q->scan);
    trust_place_fini(&q->place);
    trust_close(q->trust);
}

static bool is_trusted(const struct question *q)
{
    const struct trust_item *it = q->item;
    return it == NULL || (it->error == NULL && trust_ask(q->trust, &q->place, TRUST_ENV, it->path,
                                                         it->tree.hash) != TRUST_NO);
}

static int refuse(const struct question *q, struct err *e)
{
    if (q->item->error != NULL) {
        return err_set(e, ERR_DENIED, "cannot read the environment: %s", q->item->error);
    }
    return err_set(e, ERR_DENIED,
                   "the environment of '%s' is not trusted; look at it and type 'afloat env allow'",
                   q->place.root);
}

// ---- the gate ------------------------------------------------------------------------------

static int check(struct env_spec *s, void *arg, struct err *e)
{
    struct question q;
    (void)s;
    int rc = question_open(&q, arg, e);
    if (rc == 0 && !is_trusted(&q)) {
        rc = refuse(&q, e);
    }
    question_close(&q);
    return rc;
}

// ---- asking --------------------------------------------------------------------------------

/// The files, with control characters as escapes: they are not trusted yet.
static void show(const struct question *q)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < q->item->tree.files.n; i++) {
        const struct tree_file *f = &q->item->tree.files.p[i];
        buf_addf(&text, "---- %s\n", f->path);
        for (size_t k = 0; k < f->bytes.n; k++) {
            unsigned char c = (unsigned char)f->bytes.p[k];
            bool plain = (c >= ' ' && c != 0x7f) || c == '\n' || c == '\t';
            buf_addf(&text, plain ? "%c" : "\\x%02x", c);
        }
        buf_addz(&text, "\n");
    }
    fputs(buf_z(&text), stderr);
    buf_fini(&text);
}

static char read_choice(void)
{
    char line[LINE_MAX_BYTES];
    fputs("Use it? [f]ollow (now and at every edit: my project), [o]nce (what is there now), "
          "[n]o, [?] show: ",
          stderr);
    fflush(stderr);
    ssize_t n = read(STDIN_FILENO, line, sizeof line);
    return n > 0 ? line[0] : 'n';
}

static int ask(struct question *q, struct err *e)
{
    fprintf(stderr, "'%s' has an environment that is not trusted yet.\n", q->place.root);
    for (;;) {
        switch (read_choice()) {
        case 'f': return trust_add(q->trust, &q->place, q->item, 1, true, e);
        case 'o': return trust_add(q->trust, &q->place, q->item, 1, false, e);
        case 'n': return refuse(q, e);
        case '?': show(q); break;
        default: break;
        }
    }
}

// ---- public --------------------------------------------------------------------------------

int consent_open(struct consent **out, struct env_gate *gate, const struct home *home,
                 const char *root, bool may_ask, struct err *e)
{
    struct consent *c = xcalloc(1, sizeof *c);
    struct question q;
    c->home = xstrdup(home->dir);
    c->root = xstrdup(root);
    *gate = (struct env_gate){.check = check, .arg = c};
    *out = c;
    int rc = question_open(&q, c, e);
    if (rc == 0 && !is_trusted(&q)) {
        rc = may_ask && q.item->error == NULL ? ask(&q, e) : refuse(&q, e);
    }
    question_close(&q);
    if (rc < 0) {
        consent_close(c);
        *out = NULL;
    }
    return rc;
}

void consent_close(struct consent *c)
{
    if (c != NULL) {
        free(c->home);
        free(c->root);
        free(c);
    }
}
