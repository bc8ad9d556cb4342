// Looking after the hub: metrics, doctor, logs, settings, the description of the interface itself.

#include <stdarg.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/openapi.h"
#include "api/plugin_int.h"
#include "base/redact.h"
#include "store/store.h"

enum { ANSWER_MAX = 16 * 1024 * 1024, DEFAULT_LINES = 100, MOST_LINES = 1000 };

void op_OPENAPI(struct api *api, struct op_call *c)
{
    struct buf out = {.max = ANSWER_MAX};
    openapi_write(&out, api->o.version);
    op_answer(c, 200, buf_str(&out));
    buf_fini(&out);
}

// ---- metrics -------------------------------------------------------------------------------

void op_METRICS(struct api *api, struct op_call *c)
{
    struct buf out = {.max = ANSWER_MAX};
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f != NULL) {
        if (fscanf(f, "%ld %ld", &pages, &resident) != 2) { // NOLINT(cert-err34-c): our own kernel
            resident = 0;
        }
        fclose(f);
    }
    buf_addf(&out,
             "# HELP afloat_info What runs.\n# TYPE afloat_info gauge\n"
             "afloat_info{version=\"%s\"} 1\n",
             api->o.version);
    buf_addf(&out,
             "# HELP afloat_uptime_seconds Time since the hub started.\n"
             "# TYPE afloat_uptime_seconds gauge\nafloat_uptime_seconds %.3f\n",
             api_uptime_s(api));
    buf_addf(&out,
             "# HELP afloat_generation The current generation.\n# TYPE afloat_generation gauge\n"
             "afloat_generation %lld\n",
             (long long)api_generation(api));
    buf_addf(&out,
             "# HELP afloat_resident_bytes Memory in use.\n# TYPE afloat_resident_bytes gauge\n"
             "afloat_resident_bytes %ld\n",
             resident * sysconf(_SC_PAGESIZE));
    buf_addf(&out,
             "# HELP afloat_event_last_id The newest event.\n# TYPE afloat_event_last_id counter\n"
             "afloat_event_last_id %llu\n",
             (unsigned long long)event_last_id(api->o.hub->events));
    store_metrics(api->o.hub->store, &out);
    api__plugin_metrics(api, &out);
    api->o.host.metrics(api->o.host.arg, &out);
    op_answer_text(c, "text/plain; version=0.0.4; charset=utf-8", buf_str(&out));
    buf_fini(&out);
}

// ---- doctor --------------------------------------------------------------------------------

static void check(struct jw *w, const char *name, bool ok, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
static void check(struct jw *w, const char *name, bool ok, const char *hint, const char *fmt, ...)
{
    char detail[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    jw_obj(w);
    jw_kstrz(w, "name", name);
    jw_kstrz(w, "status", ok ? "ok" : "fail");
    jw_kstrz(w, "detail", detail);
    if (!ok) {
        jw_kstrz(w, "hint", hint);
    }
    jw_end_obj(w);
}

enum { SLOW_MS = 50, SKEW_MS = 2000, LAG_S = 30, OLDEST_SERVER = 14 };

/// What a store in PostgreSQL says of itself; files are checked by fsck.
static void check_store(struct jw *w, const struct json *st)
{
    double ms = json_double(json_get(st, "latency_ms"), 0);
    double lag = json_double(json_get(st, "replication_lag_s"), 0);
    int64_t skew = json_int(json_get(st, "clock_skew_ms"), 0);
    struct str version = json_get_text(st, "version");
    bool files = str_eqz(json_get_text(st, "kind"), "files");
    check(w, "store", true, "", STR_FMT " " STR_FMT ", schema %lld",
          STR_ARG(json_get_text(st, "kind")), STR_ARG(version),
          (long long)json_int(json_get(st, "schema"), 0));
    if (files) {
        return;
    }
    check(w, "store version", strtol(version.p, NULL, 10) >= OLDEST_SERVER,
          "PostgreSQL 14 or newer is needed", "PostgreSQL " STR_FMT, STR_ARG(version));
    check(w, "store latency", ms <= SLOW_MS, "the store should be near its hubs",
          "%.2f ms for a request", ms);
    check(w, "store clock", skew <= SKEW_MS && skew >= -SKEW_MS,
          "set the clocks of both machines by NTP", "%lld ms ahead of this machine",
          (long long)skew);
    check(w, "store replication", lag <= LAG_S && !json_bool(json_get(st, "replica"), false),
          "when a replica that lags far behind takes over, the missing data is lost",
          "%lld replicas, %.1f s behind%s", (long long)json_int(json_get(st, "replicas"), 0), lag,
          json_bool(json_get(st, "replica"), false) ? "; this is a replica, it cannot be written"
                                                    : "");
    bool super = json_bool(json_get(st, "too_privileged"), false);
    bool may = json_bool(json_get(st, "may_write"), false);
    check(w, "store privileges", may, "grant the role afloat_hub to the user of [store] url",
          "user '" STR_FMT "' %s", STR_ARG(json_get_text(st, "user")),
          !may    ? "may not write events"
          : super ? "may do everything on the server; a role with afloat_hub is enough for hubs"
                  : "may do what a hub needs");
}

static void on_store_health(void *arg, int status, struct str text, const struct err *e)
{
    struct op_call *c = arg;
    struct api *api = c->api;
    struct json *st = NULL;
    struct rlimit lim;
    struct statvfs fs;
    const char *home = api->o.hub->home->dir;
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "checks");
    if (statvfs(home, &fs) < 0) {
        check(w, "disk", false, "see that the home exists", "cannot look at '%s'", home);
    } else {
        unsigned long long free_mb = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
        check(w, "disk", free_mb >= 64, "make room: journals are written there",
              "%llu MB free in '%s'", free_mb, home);
    }
    getrlimit(RLIMIT_NOFILE, &lim);
    check(w, "open files", lim.rlim_cur >= 1024, "raise `ulimit -n` where the hub is started",
          "limit %llu", (unsigned long long)lim.rlim_cur);
    check(w, "settings", !api->o.hub->config->diags->broken, "see `afloat config show`", "%s",
          api->o.hub->config->diags->broken ? "a configuration file is broken and left out"
                                            : "all files read");
    if (status < 0) {
        check(w, "store", false, "see [store] in config.toml; `afloat store status`", "%s", e->msg);
    } else if (json_parse(&st, c->arena, text, NULL, NULL) == 0) {
        check_store(w, st);
    }
    jw_end_arr(w);
    op_end_obj(c, 200);
}

void op_DOCTOR(struct api *api, struct op_call *c)
{
    store_health(api->o.hub->store, on_store_health, c);
}

static void on_store_shown(void *arg, int status, struct str text, const struct err *e)
{
    if (status < 0) {
        op_fail(arg, PROBLEM_STORE_FAILED, "see `afloat doctor`", "%s", e->msg);
    } else {
        op_answer(arg, 200, text);
    }
}

void op_STORE(struct api *api, struct op_call *c)
{
    store_health(api->o.hub->store, on_store_shown, c);
}

// ---- settings and logs ---------------------------------------------------------------------

void op_CONFIG_SHOW(struct api *api, struct op_call *c)
{
    struct jw *w = op_begin(c);
    config_write_json(api->o.hub->config->now, api->o.hub->config->diags, w);
    redact_json(&c->out); // the address of a store may hold its password
    op_end(c, 200);
}

void op_LOGS(struct api *api, struct op_call *c)
{
    int64_t limit = json_int(json_get(c->params, "limit"), DEFAULT_LINES);
    if (limit < 1 || limit > MOST_LINES) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", MOST_LINES);
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "lines");
    api->o.host.logs(api->o.host.arg, (size_t)limit, w);
    jw_end_arr(w);
    op_end_obj(c, 200);
}
