// Looking after the hub: metrics, doctor, logs, settings, the description of the interface itself.

#include <stdarg.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/openapi.h"
#include "api/plugin_int.h"

enum { ANSWER_MAX = 16 * 1024 * 1024, DEFAULT_LINES = 100, MOST_LINES = 1000 };

void op_OPENAPI(struct api *api, struct op_call *c)
{
    struct buf out;
    buf_init(&out, ANSWER_MAX);
    openapi_write(&out, api->version);
    op_answer(c, 200, buf_str(&out));
    buf_fini(&out);
}

// ---- metrics -------------------------------------------------------------------------------

static long resident_bytes(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f != NULL) {
        if (fscanf(f, "%ld %ld", &pages, &resident) != 2) { // NOLINT(cert-err34-c): our own kernel
            resident = 0;
        }
        fclose(f);
    }
    return resident * sysconf(_SC_PAGESIZE);
}

void op_METRICS(struct api *api, struct op_call *c)
{
    struct buf out;
    buf_init(&out, ANSWER_MAX);
    buf_addf(&out,
             "# HELP afloat_info What runs.\n# TYPE afloat_info gauge\n"
             "afloat_info{version=\"%s\"} 1\n",
             api->version);
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
             resident_bytes());
    buf_addf(&out,
             "# HELP afloat_event_last_id The newest event.\n# TYPE afloat_event_last_id counter\n"
             "afloat_event_last_id %llu\n",
             (unsigned long long)event_last_id(api->events));
    api__plugin_metrics(api, &out);
    api->host.metrics(api->host.arg, &out);
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

static void check_disk(struct api *api, struct jw *w)
{
    struct statvfs fs;
    if (statvfs(api->home->dir, &fs) < 0) {
        check(w, "disk", false, "see that the home exists", "cannot look at '%s'", api->home->dir);
        return;
    }
    unsigned long long free_mb = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
    check(w, "disk", free_mb >= 64, "make room: journals are written there", "%llu MB free in '%s'",
          free_mb, api->home->dir);
}

void op_DOCTOR(struct api *api, struct op_call *c)
{
    struct rlimit lim;
    struct jw *w = op_begin(c);
    jw_obj(w);
    jw_karr(w, "checks");
    check_disk(api, w);
    getrlimit(RLIMIT_NOFILE, &lim);
    check(w, "open files", lim.rlim_cur >= 1024, "raise `ulimit -n` where the hub is started",
          "limit %llu", (unsigned long long)lim.rlim_cur);
    check(w, "settings", !api->config->diags->broken, "see `afloat config show`", "%s",
          api->config->diags->broken ? "a configuration file is broken and left out"
                                     : "all files read");
    jw_end_arr(w);
    jw_end_obj(w);
    op_end(c, 200);
}

// ---- settings and logs ---------------------------------------------------------------------

void op_CONFIG_SHOW(struct api *api, struct op_call *c)
{
    struct jw *w = op_begin(c);
    config_write_json(api->config->now, api->config->diags, w);
    op_end(c, 200);
}

void op_LOGS(struct api *api, struct op_call *c)
{
    int64_t limit = json_int(json_get(c->params, "limit"), DEFAULT_LINES);
    if (limit < 1 || limit > MOST_LINES) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", MOST_LINES);
        return;
    }
    struct jw *w = op_begin(c);
    jw_obj(w);
    jw_karr(w, "lines");
    api->host.logs(api->host.arg, (size_t)limit, w);
    jw_end_arr(w);
    jw_end_obj(w);
    op_end(c, 200);
}
