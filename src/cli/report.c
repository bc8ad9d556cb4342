// The report of a reload as people read it.

#include "cli/report.h"

static struct str text_of(const struct json *obj, const char *key)
{
    return json_str(json_get(obj, key), "");
}

static enum out_tint tint_of(struct str state)
{
    return str_eqz(state, "failed")                                ? OUT_RED
           : str_eqz(state, "added") || str_eqz(state, "changed")  ? OUT_GREEN
           : str_eqz(state, "removed") || str_eqz(state, "loaded") ? OUT_PLAIN
                                                                   : OUT_YELLOW;
}

static void print_units(struct out *o, const struct json *units)
{
    struct table t;
    table_init(&t, 3);
    for (size_t i = 0; json_at(units, i) != NULL; i++) {
        const struct json *u = json_at(units, i);
        struct str state = text_of(u, "state");
        table_add(&t, tint_of(state), state);
        table_add(&t, OUT_BOLD, text_of(u, "name"));
        table_addf(&t, "revision %lld", (long long)json_int(json_get(u, "revision"), 0));
    }
    table_print(&t, o);
    table_fini(&t);
}

static void print_place(struct out *o, const struct json *d)
{
    struct str path = text_of(d, "path");
    int64_t line = json_int(json_get(d, "line"), 0);
    if (path.n != 0) {
        out_addf(o, "  at ");
        out_text(o, path);
        out_addf(o, line > 0 ? ":%lld\n" : "\n", (long long)line);
    }
}

static void print_diagnostic(struct out *o, const struct json *d)
{
    bool error = str_eqz(text_of(d, "severity"), "error");
    struct str hint = text_of(d, "hint");
    out_tinted(o, error ? OUT_RED : OUT_YELLOW, text_of(d, "severity"));
    out_addf(o, " ");
    out_text(o, text_of(d, "code"));
    out_addf(o, " ");
    out_tinted(o, OUT_BOLD, text_of(d, "plugin"));
    out_addf(o, ": ");
    out_text(o, text_of(d, "message"));
    out_addf(o, "\n");
    print_place(o, d);
    if (hint.n != 0) {
        out_addf(o, "  hint: ");
        out_text(o, hint);
        out_addf(o, "\n");
    }
}

void report_print_problems(struct out *o, const struct json *report)
{
    const struct json *list = json_get(report, "diagnostics");
    for (size_t i = 0; json_at(list, i) != NULL; i++) {
        print_diagnostic(o, json_at(list, i));
    }
    list = json_get(report, "needs");
    for (size_t i = 0; json_at(list, i) != NULL; i++) {
        const struct json *n = json_at(list, i);
        out_tinted(o, OUT_YELLOW, STR("needs"));
        out_addf(o, " ");
        out_text(o, text_of(n, "kind"));
        out_addf(o, " ");
        out_tinted(o, OUT_BOLD, text_of(n, "plugin"));
        out_addf(o, ": ");
        out_text(o, text_of(n, "reason"));
        out_addf(o, "\n");
    }
}

void report_print(struct out *o, const struct json *report)
{
    int64_t now = json_int(json_get(report, "generation"), 0);
    int64_t before = json_int(json_get(report, "previous"), 0);
    out_addf(o, "generation %lld", (long long)now);
    if (json_bool(json_get(report, "dry_run"), false)) {
        out_addf(o, " stays (dry run)");
    } else if (now != before) {
        out_addf(o, " follows %lld", (long long)before);
    }
    out_addf(o, ", %lld kept, %.1f ms\n", (long long)json_int(json_get(report, "kept"), 0),
             (double)json_int(json_get(report, "duration_us"), 0) / 1000);
    print_units(o, json_get(report, "plugins"));
    report_print_problems(o, report);
}
