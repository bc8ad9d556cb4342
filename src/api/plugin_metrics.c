// What plugins cost, in the Prometheus text format.

#include "api/plugin_int.h"
#include "gen/route.h"

static void add_label(struct buf *out, const char *name, const char *value)
{
    buf_addf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\') {
            buf_addc(out, '\\');
        }
        buf_addc(out, *value == '\n' ? ' ' : *value);
    }
    buf_addc(out, '"');
}

static void add_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP afloat_plugin_%s %s\n# TYPE afloat_plugin_%s %s\n", name, help, name,
             type);
}

static void add_gauge(const struct api *api, struct buf *out, const char *name, const char *help,
                      int64_t (*value)(const struct plugin_row *p))
{
    add_head(out, name, "gauge", help);
    for (size_t i = 0, n = api__row_count(api); i < n; i++) {
        const struct api_row row = api__row_at(api, i);
        buf_addf(out, "afloat_plugin_%s{", name);
        add_label(out, "plugin", row.p.name);
        buf_addf(out, "} %lld\n", (long long)value(&row.p));
    }
}

static int64_t is_serving(const struct plugin_row *p)
{
    return p->unit != NULL;
}

static int64_t memory_of(const struct plugin_row *p)
{
    return (int64_t)plugin_row_memory(p);
}

static uint64_t count_of(const struct hook_stats *s)
{
    return s->count;
}

static uint64_t errors_of(const struct hook_stats *s)
{
    return s->errors;
}

/// One line for each contribution that counts its calls.
static void add_counter(const struct api *api, struct buf *out, const char *name, const char *help,
                        uint64_t (*value)(const struct hook_stats *s))
{
    add_head(out, name, "counter", help);
    for (size_t i = 0, n = api__row_count(api); i < n; i++) {
        const struct gen_unit *u = api__row_at(api, i).p.unit;
        for (size_t k = 0; u != NULL && k < gen_unit_count(u); k++) {
            const struct gen_item *it = gen_unit_at(u, k);
            const struct hook_stats *s = api__stats_of(it);
            if (s == NULL || gen_item_is_off(it)) {
                continue;
            }
            buf_addf(out, "afloat_plugin_%s{", name);
            add_label(out, "plugin", u->name);
            buf_addc(out, ',');
            add_label(out, "kind", gen_kind_name(gen_item_kind(it)));
            buf_addc(out, ',');
            add_label(out, "name", gen_item_name(it));
            buf_addf(out, "} %llu\n", (unsigned long long)value(s));
        }
    }
}

void api__plugin_metrics(const struct api *api, struct buf *out)
{
    add_gauge(api, out, "serving", "Whether some version answers.", is_serving);
    add_gauge(api, out, "memory_bytes", "Memory of its code.", memory_of);
    add_counter(api, out, "calls_total", "Calls of routes, tools and commands.", count_of);
    add_counter(api, out, "errors_total", "Of these, failed or out of time.", errors_of);
}
