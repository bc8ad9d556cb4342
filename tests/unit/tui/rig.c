#include "rig.h"

#include "unit/loop.h"
#include "unit/test.h"

static char *read_file(const char *path, size_t *n)
{
    char *text = xcalloc(1, 256 << 10);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    *n = fread(text, 1, (256 << 10) - 1, f);
    fclose(f);
    return text;
}

void rig_open(struct rig *r, int rows, int cols)
{
    static const char *const names[] = {"init", "layout", "keybindings", "actions", "events"};
    *r = (struct rig){0};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *path = xasprintf("%s/runtime/lua/ui/%s.lua", TEST_SOURCE_ROOT, names[i]);
        r->shipped[i].rel = xasprintf("ui/%s.lua", names[i]);
        r->shipped[i].text = read_file(path, &r->shipped[i].n);
        free(path);
        if (i > 0) {
            struct ui_file f = {.path = xstrdup(r->shipped[i].rel),
                                .kind = (enum ui_kind)(i - 1),
                                .text = {r->shipped[i].text, r->shipped[i].n}};
            vec_push(&r->files, f);
        }
    }
    r->home.dir = xstrdup("/home/u/.afloat");
    r->o = (struct tui_opts){
        .home = &r->home, .project = "/src/p", .version = "0", .shipped = r->shipped};
    r->t.o = &r->o;
    CHECK_INT(loop_init(&r->t.loop, NULL, NULL), 0);
    cells_init(&r->t.screen.next);
    cells_resize(&r->t.screen.next, rows, cols);
    timer_init(&r->t.soon, &r->t.loop, NULL, NULL);
    timer_init(&r->t.note_over, &r->t.loop, NULL, NULL);
    talk__init(&r->t);
}

void rig_close(struct rig *r)
{
    struct tui *t = &r->t;
    ui__free(t->ui);
    talk__fini(t);
    for (size_t i = 0; i < DOC__COUNT; i++) {
        arena_fini(&t->model.docs[i].arena);
    }
    kept__fini(t);
    vec_fini(&t->nodes);
    arena_fini(&t->tree_in[0]);
    cells_fini(&t->screen.next);
    timer_stop(&t->soon);
    timer_stop(&t->note_over);
    vec_foreach (f, &r->files) {
        free(f->path);
    }
    vec_fini(&r->files);
    for (size_t i = 0; r->shipped[i].rel != NULL; i++) {
        free((char *)(uintptr_t)r->shipped[i].rel);
        free((char *)(uintptr_t)r->shipped[i].text);
    }
    free(r->home.dir);
    TEST_LOOP_END(&t->loop);
}

void rig_file(struct rig *r, enum ui_kind kind, const char *text)
{
    struct ui_file f = {.path =
                            xasprintf("/home/u/.afloat/lua/user/ui/%s.lua", ui_kind_names[kind]),
                        .kind = kind,
                        .text = str_of(text)};
    vec_push(&r->files, f);
}

bool rig_build(struct rig *r)
{
    struct ui *ui = ui__new(&r->t, &r->files, r->t.ui, &r->fault);
    if (ui != NULL) {
        ui__retire(r->t.ui);
        r->t.ui = ui;
    }
    return ui != NULL;
}

void rig_draw(struct rig *r)
{
    struct tui *t = &r->t;
    arena_fini(&t->tree_in[0]);
    if (ui__render(t->ui, &t->tree_in[0], &t->tree, &r->fault) < 0) {
        test_fail(__FILE__, __LINE__, "%s", r->fault.text);
    }
    t->frame++;
    cells_clear(&t->screen.next);
    node__arrange(t, t->screen.next.rows, t->screen.next.cols);
    vec_foreach (n, &t->nodes) {
        draw__node(t, *n);
    }
}

const char *rig_row(const struct rig *r, int row)
{
    static char text[4096];
    size_t n = 0;
    for (int col = 0; col < r->t.screen.next.cols; col++) {
        struct term_cell *c = cells_at(&r->t.screen.next, row, col);
        memcpy(text + n, c->text, c->n);
        n += c->n;
    }
    while (n > 0 && text[n - 1] == ' ') {
        n--;
    }
    text[n] = '\0';
    return text;
}

void rig_type(struct rig *r, const char *bytes)
{
    struct keys keys = {0};
    struct str rest = str_of(bytes);
    struct key k;
    while (keys_next(&keys, &rest, &k)) {
        input__key(&r->t, &k);
    }
    if (keys_waits(&keys)) {
        keys_timeout(&keys, &k);
        input__key(&r->t, &k);
    }
    if (r->t.focus_by != 0) {
        input__move(&r->t, r->t.focus_by);
        r->t.focus_by = 0;
    }
    rig_draw(r);
}
