// Environments as shell text.
//
//     : afloat 1 7 321                     generation, and bytes of all that follows this line
//     __afloat_set FOO 'new' '=old' '-'    one call per change, see runtime/env
//     __afloat_list PATH '' '/p/bin' '' =
//     __afloat_own '/p/bin' 3
//     : end 7
//
// The text holds only calls of our own functions with quoted words, so the dialects differ only in quoting.
// The only foreign code in it are bash functions of nix or devenv, each as one such word. A shell evaluates the
// text only when length and last line are right: a file that a full disk has cut is never applied in part.

#include "env/render.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "env/merge.h"
#include "env/shipped.h"

static const char *const dialect_names[] = {"bash", "zsh", "fish", "sh"};

static const char *const preludes[][2] = {
    [ENV_BASH] = {"common.sh", "load.bash"},
    [ENV_ZSH] = {"common.sh", "load.zsh"},
    [ENV_FISH] = {"prelude.fish", NULL},
    [ENV_SH] = {"common.sh", "load.sh"},
};

// fish: what is printable stands in quotes, all else as an escape outside of them, so that the text
// is ASCII whatever the locale.
static void quote_fish(struct buf *out, const char *value)
{
    bool open = false;
    for (const char *p = value; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        bool plain = c >= ' ' && c < 0x7f;
        if (plain != open) {
            buf_addc(out, '\'');
            open = plain;
        }
        if (!plain) {
            buf_addf(out, c < 0x80 ? "\\x%02x" : "\\X%02x", c);
        } else {
            buf_addz(out, c == '\'' || c == '\\' ? "\\" : "");
            buf_addc(out, *p);
        }
    }
    buf_addz(out, open ? "'" : value[0] == '\0' ? "''" : "");
}

static void add_word(struct buf *out, enum env_dialect d, const char *value)
{
    buf_addc(out, ' ');
    env_quote(out, d, value);
}

static void add_op(struct buf *out, enum env_dialect d, const struct env_op *op)
{
    static const char *const calls[] = {"set", "unset", "list", "back", "function"};
    const char *const lists[] = {op->old, op->front, op->back};
    if (op->kind == ENV_OP_FUNCTION && d != ENV_BASH) {
        return; // the text is bash
    }
    buf_addf(out, "__afloat_%s %s", calls[op->kind], op->name);
    if (op->value != NULL) {
        add_word(out, d, op->value);
    }
    for (size_t i = 0; i < op->n_expect; i++) {
        const char *value = op->expect[i].value;
        char *word = value != NULL ? xasprintf("=%s", value) : xstrdup("-");
        add_word(out, d, word);
        free(word);
    }
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (lists[i] != NULL) {
            add_word(out, d, lists[i]);
        }
    }
    if (op->kind == ENV_OP_LIST) {
        buf_addz(out, op->outer ? " =" : " -");
    }
    buf_addc(out, '\n');
}

static void add_frame(struct buf *out, unsigned long long generation, struct buf *body)
{
    buf_addf(body, ": end %llu\n", generation);
    buf_addf(out, ": afloat 1 %llu %zu\n", generation, body->n);
    buf_adds(out, buf_str(body));
}

// Our own directory that no other user may enter; not through a link.
static int open_private(const char *dir, struct err *e)
{
    struct stat st;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(e, "cannot use '%s'", dir);
    }
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        close(fd);
        return err_set(e, ERR_DENIED, "'%s' is not a directory of yours that others cannot enter",
                       dir);
    }
    return fd;
}

// Not synced: these files live no longer than their shell.
static int write_new(int dirfd, const char *name, struct str text)
{
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    int rc = path_write_fd(fd, text);
    if (close(fd) != 0 && rc == 0) {
        rc = -errno;
    }
    return rc;
}

bool env_dialect_of(const char *program, enum env_dialect *out)
{
    struct str name = path_base(str_of(program));
    name = str_starts(name, "-") ? str_from(name, 1) : name;
    ptrdiff_t at = str_lookup(name, dialect_names, ARRAY_LEN(dialect_names));
    if (at >= 0) {
        *out = (enum env_dialect)at;
    }
    return at >= 0;
}

void env_session_render(struct env_session *s, const struct env_result *r, enum env_dialect d,
                        struct buf *out)
{
    struct env_ops ops;
    struct buf body = {.max = SIZE_MAX};
    unsigned long long generation = r != NULL ? r->generation : 0;
    env_session_merge(s, r, &ops);
    vec_foreach (op, &ops.all) {
        add_op(&body, d, op);
    }
    buf_addz(&body, "__afloat_own");
    add_word(&body, d, ops.path_front);
    if (ops.count != 0) {
        buf_addf(&body, " %llu\n", (unsigned long long)ops.count);
    } else {
        buf_addz(&body, " ''\n");
    }
    add_frame(out, generation, &body);
    buf_fini(&body);
    env_ops_fini(&ops);
}

void env_render_prelude(enum env_dialect d, struct buf *out)
{
    assert((size_t)d < ARRAY_LEN(preludes));
    for (size_t i = 0; i < ARRAY_LEN(preludes[d]) && preludes[d][i] != NULL; i++) {
        buf_addz(out, shipped_get(shipped_env, preludes[d][i])->text);
    }
}

int env_render_write(const char *dir, const char *name, struct str text, struct err *e)
{
    int fd = open_private(dir, e);
    if (fd < 0) {
        return fd;
    }
    char *other = xasprintf(".%s.new", name);
    unlinkat(fd, other, 0); // left by a process that was killed
    int rc = write_new(fd, other, text);
    if (rc == 0 && renameat(fd, other, fd, name) != 0) {
        rc = -errno;
    }
    if (rc != 0) {
        unlinkat(fd, other, 0);
        err_set(e, rc, "cannot write '%s/%s': %s", dir, name, err_text(rc));
    }
    free(other);
    close(fd);
    return rc;
}

void env_quote(struct buf *out, enum env_dialect d, const char *value)
{
    if (d == ENV_FISH) {
        quote_fish(out, value);
        return;
    }
    buf_addc(out, '\'');
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '\'') {
            buf_addz(out, "'\\''");
        } else {
            buf_addc(out, *p);
        }
    }
    buf_addc(out, '\'');
}

void env_render_note(enum env_dialect d, const char *line, struct buf *out)
{
    struct buf body = {.max = SIZE_MAX};
    buf_addz(&body, "printf '%s\\n'");
    add_word(&body, d, line);
    buf_addz(&body, " >&2\n");
    add_frame(out, 0, &body);
    buf_fini(&body);
}
