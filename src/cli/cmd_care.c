// What is installed, and whether it is well.
//
// `doctor` looks at everything that can be seen without a hub, then asks the hub, if one answers,
// for what only it can see. It changes nothing and creates nothing. A failed check says what to do.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/call.h"
#include "client/holder.h"
#include "client/start.h"
#include "config/config.h"
#include "config/secrets.h"
#include "loop/proc.h"
#include "pg/pg.h"
#include "proto/engines.h"
#include "sandbox/box.h"
#include "sandbox/policy.h"
#include "settings/team.h"

int cmd_version(struct cli *c)
{
    const char *build = c->host->build_id();
    if (c->json) {
        struct jw w = {.out = &c->out.data};
        jw_obj(&w);
        jw_kstrz(&w, "version", c->host->version);
        jw_kstrz(&w, "build", build);
        jw_end_obj(&w);
        out_add(&c->out, STR("\n"));
    } else {
        out_addf(&c->out, "afloat %s (build %.12s)\n", c->host->version, build);
    }
    return EXIT_OK;
}

// ---- doctor --------------------------------------------------------------------------------

enum verdict { FINE, WARN, FAIL };

struct doctor {
    struct cli *c;
    struct buf json; // {"checks":[...
    struct jw w;
    unsigned failed;
    bool launcher; // afloat-launch can be run
};

static void report(struct doctor *d, const char *name, enum verdict v, const char *remedy,
                   const char *fmt, ...) PRINTF_LIKE(5, 6);
static void report(struct doctor *d, const char *name, enum verdict v, const char *remedy,
                   const char *fmt, ...)
{
    assert(v == FINE || remedy != NULL);
    char detail[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    d->failed += v == FAIL;
    jw_obj(&d->w);
    jw_kstrz(&d->w, "name", name);
    jw_kstrz(&d->w, "status", (const char *const[]){"ok", "warn", "fail"}[v]);
    jw_kstrz(&d->w, "detail", detail);
    if (v != FINE) {
        jw_kstrz(&d->w, "hint", remedy);
    }
    jw_end_obj(&d->w);
}

// The nearest directory above `path` that exists, for questions about its file system.
static char *existing_above(const char *path)
{
    char *at = xstrdup(path);
    while (access(at, F_OK) < 0 && strcmp(at, "/") != 0) {
        char *up = str_dup(path_dir(str_of(at)));
        free(at);
        at = up;
    }
    return at;
}

// May we put files there? Also asked of the file system: it may be mounted read-only.
static bool check_writable(struct doctor *d, const char *name, const char *path)
{
    char *at = existing_above(path);
    bool can = faccessat(AT_FDCWD, at, W_OK | X_OK, AT_EACCESS) == 0;
    if (!can) {
        report(d, name, FAIL, "the hub needs to write there: choose another place by AFLOAT_HOME",
               "cannot write in '%s': %s", at, err_text(-errno));
    }
    free(at);
    return can;
}

static void check_directory(struct doctor *d, const char *name, const char *path)
{
    struct stat st;
    char remedy[4200];
    int fault = stat(path, &st) < 0 ? errno : 0;
    if (fault != 0 && fault != ENOENT) {
        report(d, name, FAIL, "see that its parents can be searched", "'%s': %s", path,
               err_text(-fault));
        return;
    }
    bool mine = fault != 0 || st.st_uid == geteuid(), dir = fault != 0 || S_ISDIR(st.st_mode);
    if (mine && dir && !check_writable(d, name, path)) {
        return;
    }
    if (fault != 0) {
        report(d, name, FINE, NULL, "'%s': not there yet, the hub makes it", path);
        return;
    }
    bool shared = (st.st_mode & 0022) != 0;
    snprintf(remedy, sizeof remedy,
             !dir   ? "move '%s' away, or set AFLOAT_HOME to a directory"
             : mine ? "chmod go-w '%s'"
                    : "sudo chown $USER '%s'",
             path);
    report(d, name, dir && mine && !shared ? FINE : FAIL, remedy, "'%s'%s", path,
           !dir     ? " is not a directory"
           : !mine  ? " belongs to another user"
           : shared ? " can be written by others"
                    : "");
}

static void check_places(struct doctor *d)
{
    const struct home *h = &d->c->home;
    const char *private[][2] = {{"token", h->token}, {"secrets", h->secrets}};
    struct sockaddr_un sa;
    struct stat st;
    check_directory(d, "home", h->dir);
    check_directory(d, "runtime", h->runtime);
    for (size_t i = 0; i < ARRAY_LEN(private); i++) {
        const char *name = private[i][0], *path = private[i][1];
        char remedy[4200];
        snprintf(remedy, sizeof remedy, "chmod 600 '%s'", path);
        if (stat(path, &st) == 0) {
            bool open_to_others = (st.st_mode & 0077) != 0;
            report(d, name, open_to_others ? FAIL : FINE, remedy, "'%s'%s", path,
                   open_to_others ? " can be read by others" : "");
        }
    }
    size_t n = strlen(h->socket);
    report(d, "socket path", FINE, NULL, "%zu bytes%s", n,
           n >= sizeof sa.sun_path ? ", reached through /proc/self/fd" : "");
}

static void check_disk(struct doctor *d)
{
    char *dir = existing_above(d->c->home.dir);
    struct statvfs fs = {0};
    if (statvfs(dir, &fs) < 0) {
        report(d, "disk", FAIL, "see that it can be searched", "'%s': %s", dir, err_text(-errno));
    } else {
        unsigned long long mb = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
        report(d, "disk",
               mb < 64    ? FAIL
               : mb < 512 ? WARN
                          : FINE,
               "make room: journals are written there", "%llu MB free at '%s'", mb, dir);
    }
    free(dir);
}

static void check_file_system(struct doctor *d)
{
    static const struct {
        long magic;
        const char *name;
    } remote[] = {{0x6969, "NFS"}, {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB"}, {0x01021997, "9P"}};
    char *dir = existing_above(d->c->home.state);
    struct statfs fs = {0};
    const char *bad = NULL;
    if (statfs(dir, &fs) == 0) {
        for (size_t i = 0; i < ARRAY_LEN(remote); i++) {
            bad = (uint32_t)fs.f_type == (uint32_t)remote[i].magic ? remote[i].name : bad;
        }
    }
    report(d, "file system", bad != NULL ? FAIL : FINE,
           "put AFLOAT_HOME on a local disk: the index cannot be locked safely there", "%s at '%s'",
           bad != NULL ? bad : "local", dir);
    free(dir);
}

/// The number in a file of /proc; -1 when there is none.
static long long read_number(const char *path)
{
    struct buf text = {.max = 64};
    int64_t n = -1;
    if (path_read(path, &text, NULL) == 0) {
        str_to_i64(str_trim(buf_str(&text)), &n);
    }
    buf_fini(&text);
    return n;
}

static void check_limits(struct doctor *d)
{
    long long watches = read_number("/proc/sys/fs/inotify/max_user_watches");
    long long instances = read_number("/proc/sys/fs/inotify/max_user_instances");
    struct rlimit files;
    report(d, "inotify", watches >= 8192 && instances >= 64 ? FINE : WARN,
           "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512",
           "%lld watches, %lld instances", watches, instances);
    getrlimit(RLIMIT_NOFILE, &files);
    report(d, "open files", files.rlim_max >= 1024 ? FINE : FAIL,
           "raise the hard limit: ulimit -Hn", "at most %llu", (unsigned long long)files.rlim_max);
}

// Parts of the kernel that the sandbox is made of; whether it can be made is tried below.
static void check_kernel(struct doctor *d)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    long fd = syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how);
    bool has_openat2 = fd >= 0 || errno != ENOSYS;
    if (fd >= 0) {
        close((int)fd);
    }
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    long long spaces = read_number("/proc/sys/user/max_user_namespaces");
    report(d, "openat2", has_openat2 ? FINE : WARN, "paths are walked part by part instead", "%s",
           has_openat2 ? "there" : "not in this kernel");
    report(d, "landlock", abi > 0 ? FINE : WARN, "a kernel with Landlock in its lsm= list has it",
           abi > 0 ? "ABI %ld" : "not available (%ld)", abi);
    report(d, "user namespaces", spaces > 0 ? FINE : WARN,
           "sudo sysctl user.max_user_namespaces=15000", "at most %lld", spaces);
}

// Programs that the hub starts. No setting of the kernel helps where one is missing.
static void check_programs(struct doctor *d)
{
    char *launch = proc_launcher_path(NULL);
    char *git = path_find_program(str_of(getenv("PATH")), "git");
    d->launcher = launch != NULL && access(launch, X_OK) == 0;
    report(d, "afloat-launch", d->launcher ? FINE : FAIL,
           "install it beside 'afloat': the hub starts every program through it", "'%s'%s%s",
           launch != NULL ? launch : "",
           d->launcher ? "" : " cannot be run: ", d->launcher ? "" : err_text(-errno));
    report(d, "git", git != NULL ? FINE : WARN, "install git: bots work in git worktrees", "%s",
           git != NULL ? git : "not found in PATH");
    free(launch);
    free(git);
}

/// The outside agents that can run turns. One that is missing is a fault only where the settings name it.
static void check_engines(struct doctor *d, const struct config *config)
{
    static const struct {
        const char *name, *install;
    } known[] = {{ENGINE_CODEX, ENGINE_CODEX_INSTALL}, {ENGINE_CLAUDE, ENGINE_CLAUDE_INSTALL}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const struct config_entry *set =
            config != NULL ? config_find_named(config, "engines.*.command", known[i].name) : NULL;
        const char *command = set != NULL ? json_str(set->value, "").p : NULL;
        char *found = command != NULL && strchr(command, '/') != NULL
                          ? (access(command, X_OK) == 0 ? xstrdup(command) : NULL)
                          : path_find_program(str_of(getenv("PATH")),
                                              command != NULL ? command : known[i].name);
        char name[40];
        snprintf(name, sizeof name, "engine %s", known[i].name);
        report(d, name, found != NULL || command == NULL ? FINE : WARN, known[i].install, "%s%s",
               found != NULL     ? found
               : command != NULL ? "there is no program "
                                 : "not installed; to use it: ",
               found != NULL     ? ""
               : command != NULL ? command
                                 : known[i].install);
        free(found);
    }
}

/// Tools are refused where it cannot be had, unless the mode is one that wants none.
static void check_sandbox(struct doctor *d, const struct config *config)
{
    static const char remedy[] =
        "sudo sysctl user.max_user_namespaces=15000 (and, where they exist, "
        "kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0); a "
        "container needs --security-opt seccomp=unconfined --security-opt apparmor=unconfined";
    const char *mode = config != NULL ? config_str(config, "sandbox.mode") : "workspace-write";
    bool network = config != NULL && config_bool(config, "sandbox.network");
    struct err e = {0};
    if (strcmp(mode, "danger-full-access") == 0) {
        report(d, "sandbox", WARN, "set sandbox.mode: tools may do all that you may",
               "switched off by the settings");
    } else if (!d->launcher) {
        report(d, "sandbox", WARN, "see 'afloat-launch'", "not tried: afloat-launch is missing");
    } else if (box_probe(&e) < 0) {
        report(d, "sandbox", WARN, remedy, "%s; tools that run commands are refused", e.msg);
    } else {
        report(
            d, "sandbox", FINE, NULL,
            "namespaces, mounts, Landlock ABI %d and a filter of system calls are in force; mode "
            "%s, network %s",
            policy_landlock_abi(), mode, network ? "on" : "off");
    }
}

static const char *setting_of(const struct config *c, const char *pattern, const char *name)
{
    const struct config_entry *e = config_find_named(c, pattern, name);
    return e != NULL ? json_str(e->value, "").p : NULL;
}

/// The model that a chat without flags asks: is its provider there, and its key?
static void check_model(struct doctor *d, const struct config *config)
{
    const char *asked = getenv("AFLOAT_PROVIDER"), *provider = config_str(config, "model.provider");
    provider = asked != NULL && asked[0] != '\0' ? asked : provider;
    if (provider[0] == '\0') {
        bool key = getenv("OPENAI_API_KEY") != NULL || getenv("ANTHROPIC_API_KEY") != NULL;
        report(d, "model", FINE, NULL, "%s",
               key ? "the first provider whose key is here"
                   : "no key found: the offline model answers; 'afloat setup' finds others");
        return;
    }
    const char *env = setting_of(config, "providers.*.api_key_env", provider);
    const char *secret = setting_of(config, "providers.*.api_key_secret", provider);
    char *value = NULL;
    struct err e = {0};
    if (setting_of(config, "providers.*.kind", provider) == NULL) {
        report(d, "model", WARN, "'afloat models' lists those that there are",
               "the settings have no provider '%s'", provider);
    } else if (env != NULL && secret == NULL && getenv(env) == NULL &&
               setting_of(config, "providers.*.api_key_file", provider) == NULL) {
        report(d, "model", WARN, "set that variable, or run 'afloat setup'",
               "provider '%s' takes its key from %s, which is not set here", provider, env);
    } else if (secret != NULL && secrets_get(d->c->home.secrets, secret, &value, &e) < 0) {
        report(d, "model", WARN, "store it with 'afloat secret set'", "provider '%s': %s", provider,
               e.msg);
    } else {
        report(d, "model", FINE, NULL, "%s", provider);
    }
    free(value);
}

/// The database that the settings name: no hub starts that cannot use it.
static void check_store(struct doctor *d, const struct config *config)
{
    struct team team = {0};
    struct pg_link *pg = NULL;
    struct err e = {0};
    int rc = team_read(&team, config, &d->c->home, "", &e);
    rc = rc == 0 && team.shared ? pg_link_open(&pg, team.url, &e) : rc;
    if (rc < 0) {
        report(d, "store", FAIL, "no hub starts without it: fix [store] in config.toml", "%s",
               e.msg);
    } else if (team.shared) {
        report(d, "store", FINE, NULL, "%s", pg_link_shown(pg));
    }
    pg_link_close(pg);
    team_fini(&team);
}

static void check_settings(struct doctor *d)
{
    struct config_sources src = {
        .home = &d->c->home, .env = (const char *const *)environ, .hub = true};
    struct config *config = NULL;
    struct config_diags diags;
    struct err e = {0};
    config_diags_init(&diags);
    int rc = config_load(&config, &src, &diags, &e);
    enum verdict v = rc < 0 || diags.broken ? FAIL : diags.n != 0 ? WARN : FINE;
    if (rc == 0 && diags.n != 0 && diags.p[0].line != 0) {
        report(d, "settings", v, "see 'afloat config show'", "%s:%u: %s", diags.p[0].path,
               (unsigned)diags.p[0].line, diags.p[0].message);
    } else if (rc == 0 && diags.n != 0) {
        report(d, "settings", v, "see 'afloat config show'", "%s", diags.p[0].message);
    } else {
        report(d, "settings", v, "see 'afloat config show'", "%s",
               rc < 0 ? e.msg : "no fault found");
    }
    if (rc == 0) {
        check_store(d, config);
        check_model(d, config);
    }
    check_sandbox(d, rc < 0 ? NULL : config);
    check_engines(d, rc < 0 ? NULL : config);
    config_free(config);
    config_diags_fini(&diags);
}

static void check_hub(struct doctor *d, bool answers)
{
    pid_t pid = holder_find(&d->c->home);
    bool crashed = pid == 0 && !answers && access(d->c->home.pid, F_OK) == 0;
    char *words = crashed ? start_last_words(&d->c->home) : NULL;
    struct err e = {0};
    if (answers) {
        report(d, "hub", FINE, NULL, "running (pid %ld)", (long)pid);
    } else if (holder_look(&d->c->home, &e) < 0) {
        report(d, "hub", FAIL, "export AFLOAT_HOME=DIR", "%s", e.msg);
    } else if (pid != 0) {
        report(d, "hub", FAIL, "afloat stop; afloat start", "pid %ld does not answer", (long)pid);
    } else {
        report(d, "hub", crashed ? WARN : FINE, "see 'afloat logs'; 'afloat start' starts it again",
               crashed ? "not running; the last one did not end by itself%s%s" : "not running%s%s",
               words != NULL ? ": " : "", words != NULL ? words : "");
    }
    free(words);
}

static void check_log(struct doctor *d)
{
    char *error = start_last_error(&d->c->home);
    report(d, "log", error != NULL ? WARN : FINE, "see 'afloat logs'", "%s",
           error != NULL ? error : "no error near its end");
    free(error);
}

// The hub's own checks, under names that say so.
static void add_hubs_checks(struct doctor *d)
{
    struct arena arena = {0};
    const struct json *v = ask_quietly(d->c, OP_DOCTOR, NULL, 0, 0, &arena);
    json_foreach_item (k, json_get(v, "checks")) {
        struct str status = json_str(json_get(k, "status"), "fail");
        enum verdict verdict = str_eqz(status, "ok") ? FINE : str_eqz(status, "warn") ? WARN : FAIL;
        char *name = arena_printf(&arena, "hub: " STR_FMT, STR_ARG(json_get_text(k, "name")));
        char *hint = arena_strdup(&arena, json_str(json_get(k, "hint"), "see 'afloat logs'"));
        report(d, name, verdict, hint, STR_FMT, STR_ARG(json_get_text(k, "detail")));
    }
    arena_fini(&arena);
}

static void run_checks(struct doctor *d)
{
    struct client_answer a;
    client_answer_init(&a);
    bool answers = ask_health(d->c, &a);
    check_places(d);
    check_disk(d);
    check_file_system(d);
    check_limits(d);
    check_kernel(d);
    check_programs(d);
    check_settings(d);
    check_hub(d, answers);
    check_log(d);
    if (answers) {
        ask_note_build(d->c, &a);
        add_hubs_checks(d);
    }
    client_answer_fini(&a);
}

int cmd_doctor(struct cli *c)
{
    const struct layout checks = {"checks",
                                  COLUMNS(COL("STATUS", STATE, NULL), COL("CHECK", ID, "{name}"),
                                          COL("DETAIL", LONG, "{detail} -> {hint}||{detail}")),
                                  NULL};
    struct doctor d = {.c = c};
    buf_init(&d.json, 1 << 20);
    jw_init(&d.w, &d.json);
    jw_obj(&d.w);
    jw_karr(&d.w, "checks");
    run_checks(&d);
    jw_end_arr(&d.w);
    jw_end_obj(&d.w);
    buf_addc(&d.json, '\n');
    show_local(c, &checks, buf_str(&d.json));
    buf_fini(&d.json);
    return d.failed != 0 ? EXIT_FAILED : EXIT_OK;
}
