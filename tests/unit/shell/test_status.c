#include "base/utf8.h"
#include "shell/status.h"
#include "unit/test.h"

static const char *const one[] = {"dir/env.toml"};
static const char *const many[] = {"a", "b", "c", "d", "e"};
static const char *const odd[] = {"x\033[2Jy\n", "\xff\xfe",
                                  "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"};

/// The text of the row without its colours.
static const char *plain(struct buf *b)
{
    static char text[512];
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (b->p[i] == '\033') {
            i += strcspn(b->p + i, "m");
        } else {
            text[n++] = b->p[i];
        }
    }
    text[n] = '\0';
    return text;
}

static const char *render(const struct status *s, size_t columns)
{
    static struct buf b;
    buf_init(&b, SIZE_MAX);
    status_render(s, columns, &b);
    const char *text = plain(&b);
    CHECK_INT(utf8_width(str_of(text)), columns);
    buf_fini(&b);
    return text;
}

TEST(the_row_is_exactly_as_wide_as_the_window)
{
    struct status s = {.state = STATUS_BUILDING, .key = "\\e\\C-r", .changed = odd, .n_changed = 3};
    for (size_t columns = 0; columns < 100; columns++) {
        const char *text = render(&s, columns);
        CHECK(strchr(text, '\n') == NULL && strchr(text, '\033') == NULL);
        CHECK(utf8_valid(str_of(text)));
    }
}

TEST(files_that_changed_are_named_up_to_three)
{
    struct status s = {.state = STATUS_BUILDING, .key = "\\e\\C-r", .changed = one, .n_changed = 1};
    CHECK(strncmp(render(&s, 80), " building  env.toml  ", 21) == 0);
    s.changed = many;
    s.n_changed = 5;
    CHECK(strncmp(render(&s, 80), " building  a, b, c +2  ", 23) == 0);
    CHECK(strstr(render(&s, 80), "press Ctrl-Alt-R ") != NULL);
}

TEST(at_the_prompt_a_state_is_one_plain_line)
{
    struct status s = {.state = STATUS_BUILDING, .key = "\\e\\C-r", .changed = odd, .n_changed = 3};
    struct buf line;
    buf_init(&line, SIZE_MAX);
    status_render_line(&s, &line);
    CHECK(strncmp(buf_z(&line), "afloat: building  x\\x1b[2Jy", 25) == 0);
    CHECK(strchr(buf_z(&line), '\033') == NULL && strchr(buf_z(&line), '\n') == NULL);
    CHECK(strstr(buf_z(&line), "  (press Ctrl-Alt-R to reload)") != NULL);
    buf_clear(&line);
    s = (struct status){.state = STATUS_RELOADED,
                        .key = "\\e\\C-r",
                        .changed = one,
                        .n_changed = 1,
                        .duration_ms = 12};
    status_render_line(&s, &line);
    CHECK_STR(buf_z(&line), "afloat: reloaded  env.toml  in 12 ms"); // nothing is left to press
    buf_fini(&line);
}

TEST(colours_are_those_of_the_state)
{
    static const struct {
        enum status_state state;
        const char *start;
    } rows[] = {
        {STATUS_WATCHING, "\033[m "},       {STATUS_BUILDING, "\033[97;44m "},
        {STATUS_RELOADING, "\033[30;43m "}, {STATUS_READY, "\033[30;42m "},
        {STATUS_RELOADED, "\033[30;42m "},  {STATUS_FAILED, "\033[97;41m "},
        {STATUS_PAUSED, "\033[m "},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct status s = {.state = rows[i].state, .key = "\\C-r"};
        struct buf b;
        buf_init(&b, SIZE_MAX);
        status_render(&s, 80, &b);
        CHECK(str_starts(buf_str(&b), rows[i].start));
        CHECK(str_ends(buf_str(&b), "\033[m"));
        CHECK(strstr(buf_z(&b), status_state_name(rows[i].state)) != NULL);
        buf_fini(&b);
    }
}

TEST(keys_are_written_as_people_say_them)
{
    static const char *const rows[][2] = {
        {"\\e\\C-r", "Ctrl-Alt-R"},
        {"\\C-x", "Ctrl-X"},
        {"\\er", "Alt-R"},
        {"\\C-x\\C-r", "\\C-x\\C-r"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf b;
        buf_init(&b, SIZE_MAX);
        status_render_key(rows[i][0], &b);
        CHECK_STR(buf_z(&b), rows[i][1]);
        buf_fini(&b);
    }
}
