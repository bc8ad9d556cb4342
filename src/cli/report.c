// The report of a reload as people read it.

#include "cli/report.h"

#include <assert.h>

static const struct json *report_of(const struct json *v)
{
    const struct json *member = json_get(v, "report");
    return member != NULL ? member : v;
}

/// "error E_PARSE plugin: what is wrong"
static void print_problem(struct out *o, enum out_tint tint, struct str what, struct str kind,
                          const struct json *v, const char *text)
{
    out_tinted(o, tint, what);
    out_add(o, STR(" "));
    out_text(o, kind);
    if (json_get_text(v, "plugin").n != 0) {
        out_add(o, STR(" "));
        out_tinted(o, OUT_BOLD, json_get_text(v, "plugin"));
    }
    out_add(o, STR(": "));
    out_text(o, json_get_text(v, text));
}

void report_print_problems(struct out *o, const struct json *v)
{
    json_foreach_item (d, json_get(v, "diagnostics")) {
        struct str severity = json_get_text(d, "severity"), path = json_get_text(d, "path");
        int64_t line = json_int(json_get(d, "line"), 0);
        print_problem(o, str_eqz(severity, "error") ? OUT_RED : OUT_YELLOW, severity,
                      json_get_text(d, "code"), d, "message");
        if (path.n != 0) {
            out_add(o, STR("\n  at "));
            out_text(o, path);
            if (line > 0) {
                out_addf(o, ":%lld", (long long)line);
            }
        }
        if (json_get_text(d, "hint").n != 0) {
            out_add(o, STR("\n  hint: "));
            out_text(o, json_get_text(d, "hint"));
        }
        out_add(o, STR("\n"));
    }
    json_foreach_item (n, json_get(v, "needs")) {
        print_problem(o, OUT_YELLOW, STR("needs"), json_get_text(n, "kind"), n, "reason");
        out_add(o, STR("\n"));
    }
}

void report_print(struct out *o, const struct json *report)
{
    assert(report != NULL);
    int64_t now = json_int(json_get(report, "generation"), 0);
    int64_t before = json_int(json_get(report, "previous"), 0);
    struct table t;
    out_addf(o, "generation %lld", (long long)now);
    if (json_bool(json_get(report, "dry_run"), false)) {
        out_add(o, STR(" stays (dry run)"));
    } else if (now != before) {
        out_addf(o, " follows %lld", (long long)before);
    }
    out_addf(o, ", %lld kept, %.1f ms\n", (long long)json_int(json_get(report, "kept"), 0),
             (double)json_int(json_get(report, "duration_us"), 0) / 1000);
    table_init(&t, 3);
    json_foreach_item (u, json_get(report, "plugins")) {
        struct str state = json_get_text(u, "state");
        table_add(&t, show_tint(state), state);
        table_add(&t, OUT_BOLD, json_get_text(u, "name"));
        int64_t revision = json_int(json_get(u, "revision"), 0);
        if (revision != 0) {
            table_addf(&t, "revision %lld", (long long)revision);
        } else { // no version serves
            table_add(&t, OUT_PLAIN, STR_NULL);
        }
    }
    table_print(&t, o);
    table_fini(&t);
    report_print_problems(o, report);
}

/// What became of the plugins on each hub (`reload --all-hubs`).
static void print_hubs(struct cli *c, const struct json *report)
{
    struct table t;
    table_init(&t, 4);
    json_foreach_item (h, json_get(report, "hubs")) {
        struct str state = json_get_text(h, "state");
        table_add(&t, OUT_BOLD, json_get_text(h, "name"));
        table_add(&t, show_tint(state), state);
        table_addf(&t, "generation %lld -> %lld",
                   (long long)json_int(json_get(h, "generation_before"), 0),
                   (long long)json_int(json_get(h, "generation_after"), 0));
        table_add(&t, OUT_PLAIN, json_get_text(h, "reason"));
    }
    table_print(&t, &c->out);
    table_fini(&t);
    json_foreach_item (h, json_get(report, "hubs")) {
        json_foreach_item (conflict, json_get(h, "conflicts")) {
            show_line(c, OUT_RED, "conflict", " {name}: {@}; its file was kept", h,
                      json_str(conflict, ""));
        }
    }
    json_foreach_item (change, json_get(report, "changes")) {
        show_line(c, show_tint(json_get_text(change, "change")), "{change}", " {plugin}", change,
                  STR_NULL);
    }
    if (json_get_text(report, "stopped").n != 0) {
        show_line(c, OUT_RED, "stopped", " {stopped}", report, STR_NULL);
    }
}

void report_show(struct cli *c, const struct json *v)
{
    report_print(&c->out, report_of(v));
    print_hubs(c, report_of(v));
}

int report_judge(struct cli *c, const struct json *v)
{
    (void)c;
    return json_bool(json_get(report_of(v), "ok"), false) ? EXIT_OK : EXIT_RELOAD;
}
