// Tools that look at and control the user's open page. A command reaches the page through the hub's event stream, and
// the page answers when it is done.

#include "agent/agent_int.h"
#include "agent/tool_int.h"

static void show_page(struct tool_call *c)
{
    const struct agent_screen *page = &c->site->agent->screen;
    struct buf out = {.max = SIZE_MAX};
    if (page->state != NULL) {
        page->state(page->arg, &out);
    }
    tool_call_finish(c, buf_str(&out), page->state != NULL ? NULL : "no page is open");
    buf_fini(&out);
}

const struct tool_ops tool_UI_STATE = {.start = show_page};

static void drive_page(struct tool_call *c)
{
    const struct agent_screen *page = &c->site->agent->screen;
    const struct json *input = tool_call_input(c);
    if (page->command == NULL) {
        tool_call_finish(c, STR(""), "no page is open");
        return;
    }
    page->command(page->arg, json_get_text(input, "kind"), json_get(input, "params"),
                  tool_call_ticket(c));
}

const struct tool_ops tool_UI_COMMAND = {.start = drive_page};
