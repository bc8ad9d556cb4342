// Templates: what comes with the program to begin with. `plugin new` (cmd_plugin_make.c) is another way to those
// of plugins.

#include "cli/report.h"
#include "view/view.h"

const struct form form_template_list = {
    .layout = {
        "templates",
        COLUMNS(COL("NAME", ID, NULL), COL("FOR", DIM, "{target}"), COL("DESCRIPTION", LONG, NULL)),
        NULL}};

static void print_files(struct cli *c, const struct json *v)
{
    json_foreach_item (f, json_get(v, "files")) {
        out_tinted(&c->out, OUT_BOLD, STR("==> "));
        out_tinted(&c->out, OUT_BOLD, json_get_text(f, "path"));
        out_tinted(&c->out, OUT_BOLD, STR(" <=="));
        out_add(&c->out, STR("\n"));
        view_text(&c->out, json_get_text(f, "content"));
    }
}

const struct form form_template_show = {.print = print_files,
                                        .said = "{description}; files below the {target}"};

static void print_installed(struct cli *c, const struct json *v)
{
    struct str rest = json_get_text(v, "next");
    json_foreach_item (f, json_get(v, "files")) {
        out_text(&c->out, json_str(f, ""));
        out_add(&c->out, STR("\n"));
    }
    report_print_problems(&c->out, json_get(v, "report"));
    while (rest.n != 0) {
        struct str line = str_cut(&rest, '\n');
        out_note(&c->out, "next: " STR_FMT, STR_ARG(line));
    }
}

const struct form form_template_install = {.print = print_installed, .judge = report_judge};
