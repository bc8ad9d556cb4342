// The names that Tab offers at the prompt of a chat: files and programs by menu.c, commands and resources asked of the hub.

#include "base/visible.h"
#include "chat/chat_int.h"
#include "term/text.h"

static void offer_more(void *arg, struct menu *m, char kind, struct str start)
{
    (kind == '/'   ? chat__slash_names
     : kind == '@' ? chat__resource_names
                   : chat__slash_words)(arg, m, start);
}

void chat__complete(struct chat *t)
{
    menu_complete(&t->menu, t->input, t->gauge.dir, offer_more, t);
}

void chat__menu_lines(const struct chat *t, struct buf *out, size_t cols)
{
    enum color_depth color = t->c->out.color;
    struct buf line = {.max = SIZE_MAX};
    if (t->menu.names.n == 0) {
        return;
    }
    for (size_t i = 0; i < t->menu.names.n; i++) {
        bool chosen = i == t->menu.chosen;
        buf_addz(&line, i > 0 ? "  " : "");
        buf_addz(&line, chosen ? color_on(color, COLOR_BOLD) : color_on(color, COLOR_DIM));
        buf_addz(&line, chosen && color == COLOR_NONE ? "*" : "");
        visible_add(&line, str_of(t->menu.names.p[i]), false);
        buf_addz(&line, color_off(color));
    }
    text_add_cut(out, buf_str(&line), cols);
    buf_addc(out, '\n');
    buf_fini(&line);
}
