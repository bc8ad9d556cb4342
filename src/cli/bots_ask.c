// Asking about bots: whatever is asked, the workspace goes with it, since memory, history and runs
// belong to a bot in a place.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/bots.h"

enum { PARAMS_MAX = 16 };

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

int bots__ask(struct cli *c, const struct ask_param *params, size_t n, struct arena *arena,
              const struct json **out)
{
    char *here = getcwd(NULL, 0);
    const struct ask_param usual[] = {{"bot", args_value(&c->args, FLAG_BOT)},
                                      {"project", args_value(&c->args, FLAG_PROJECT)},
                                      {"working_dir", here}};
    struct ask_param all[PARAMS_MAX];
    assert(n + ARRAY_LEN(usual) <= PARAMS_MAX);
    for (size_t i = 0; i < n; i++) {
        all[i] = params[i];
    }
    memcpy(all + n, usual, sizeof usual);
    int code = ask_value(c, (enum op_id)c->cmd->op, all, n + ARRAY_LEN(usual), arena, out);
    free(here);
    return code;
}

int bots__each(struct cli *c, const struct ask_param *params, size_t n, const char *list,
               bots_row_fn *row, void *arg)
{
    char *cursor = NULL;
    bool more = true;
    int code = EXIT_OK;
    while (more && code == EXIT_OK) {
        struct arena arena;
        const struct json *v;
        struct ask_param all[PARAMS_MAX] = {{"cursor", cursor}};
        assert(n < PARAMS_MAX);
        for (size_t i = 0; i < n; i++) {
            all[i + 1] = params[i];
        }
        arena_init(&arena);
        code = bots__ask(c, all, n + 1, &arena, &v);
        json_foreach_item (item, json_get(v, list)) {
            row(item, arg);
        }
        bots__note_diagnostics(c, v);
        free(cursor);
        cursor = str_dup(text_of(v, "next"));
        more = cursor[0] != '\0';
        arena_fini(&arena);
    }
    free(cursor);
    return code;
}

void bots__note_diagnostics(struct cli *c, const struct json *answer)
{
    json_foreach_item (d, json_get(answer, "diagnostics")) {
        struct str path = text_of(d, "path"), text = text_of(d, "message");
        int64_t line = json_int(json_get(d, "line"), 0);
        char at[32] = "";
        if (line > 0) {
            snprintf(at, sizeof at, ":%lld", (long long)line);
        }
        out_note(&c->out, STR_FMT "%s%s" STR_FMT, STR_ARG(path), at, path.n != 0 ? ": " : "",
                 STR_ARG(d->type == JSON_STR ? d->s : text));
    }
}

static int check_text(struct cli *c, const struct buf *text)
{
    if (utf8_valid(buf_str(text)) && strlen(buf_z(text)) == text->n) {
        return EXIT_OK;
    }
    out_error(&c->out, "what is given must be text in UTF-8");
    return EXIT_USAGE;
}

int bots__read_text(struct cli *c, const char *file, struct buf *out)
{
    struct err e = {0};
    bool piped = file == NULL || strcmp(file, "-") == 0;
    if (file == NULL && isatty(STDIN_FILENO) == 1) {
        out_error(&c->out, "there is no text: name a FILE, or pipe it in");
        return EXIT_USAGE;
    }
    int fd = piped ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
        out_error(&c->out, "cannot read '%s': %s", file, err_text(-errno));
        return code;
    }
    int rc = cli__read_all(fd, out, &e);
    if (!piped) {
        close(fd);
    }
    return rc < 0 ? cli__fail(c, &e) : check_text(c, out);
}

// A text as it is, a list as its items, anything else as JSON.
static void write_plain(struct buf *out, const struct json *value)
{
    if (value == NULL || value->type == JSON_NULL) {
        return;
    }
    if (value->type == JSON_STR) {
        buf_adds(out, value->s);
    } else if (value->type == JSON_ARR) {
        json_foreach_item (item, value) {
            buf_addz(out, out->n != 0 ? ", " : "");
            write_plain(out, item);
        }
    } else {
        json_write(out, value, 0);
    }
}

void bots__add_row(struct table *t, const char *name, const struct json *value)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    write_plain(&text, value);
    if (text.n != 0) {
        table_add(t, OUT_BOLD, str_of(name));
        table_add(t, OUT_PLAIN, buf_str(&text));
    }
    buf_fini(&text);
}
