// Settings of projects as people come and go, with real files, a real trust book and a real watcher.

#include "base/path.h"
#include "settings/projects.h"
#include "settings/settings.h"
#include "trust/trust.h"
#include "unit/loop.h"
#include "watch/watch.h"

static struct {
    struct loop loop;
    struct home home;
    struct settings *settings;
    struct trust *trust;
    struct watcher *watcher;
    struct projects *projects;
    struct config_diags faults;
    unsigned changed, entered, nowhere;
    char *real; // of the last one that entered
} hub;

static void put(const char *rel, const char *text)
{
    char *path = path_join(test_dir(), rel), *dir = str_dup(path_dir(str_of(path)));
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
    free(dir);
    free(path);
}

static const char *at(const char *rel)
{
    static char text[2][4096];
    static unsigned turn;
    char *out = text[turn++ % 2];
    snprintf(out, sizeof text[0], "%s/%s", test_dir(), rel);
    return out;
}

/// Trust what `rel` holds now; the hub is told.
static void trust(const char *rel)
{
    struct trust_place p;
    struct trust_scan s;
    struct trust *mine, *fresh;
    CHECK_INT(trust_place_of(&p, hub.home.dir, at(rel), NULL), 0);
    CHECK_INT(trust_scan(&s, p.root, NULL), 0);
    CHECK_INT(trust_open(&mine, hub.home.dir, NULL), 0);
    CHECK_INT(trust_add(mine, &p, s.items.p, s.items.n, false, NULL), 0);
    trust_close(mine);
    CHECK_INT(trust_open(&fresh, hub.home.dir, NULL), 0);
    trust_adopt(hub.trust, fresh);
    trust_scan_fini(&s);
    trust_place_fini(&p);
}

/// As if the hub's files were read again.
static void settings_again(void)
{
    struct config_live *c = settings_live(hub.settings);
    config_put(c, c->now, c->diags);
}

static void on_changed(void *arg)
{
    (void)arg;
    hub.changed++;
}

static void on_judged(void *arg)
{
    (void)arg;
    config_diags_fini(&hub.faults);
    projects_add_faults(hub.projects, &hub.faults);
}

static void on_entered(void *arg, const char *real_dir)
{
    (void)arg;
    hub.entered++;
    hub.nowhere += real_dir == NULL;
    free(hub.real);
    hub.real = real_dir != NULL ? xstrdup(real_dir) : NULL;
}

static void open_hub(void)
{
    static char *system_path;
    char *dir = path_join(test_dir(), "home");
    hub.changed = hub.entered = hub.nowhere = 0;
    put("home/config.toml", "[watch]\ndebounce_ms = 1\n");
    put("system.toml", "");
    CHECK_INT(home_resolve(&hub.home, dir, NULL), 0);
    free(system_path);
    system_path = path_join(test_dir(), "system.toml");
    struct settings_opts so = {.home = &hub.home, .system_path = system_path};
    CHECK_INT(settings_open(&hub.settings, &so, NULL), 0);
    CHECK_INT(loop_init(&hub.loop, NULL, NULL), 0);
    CHECK_INT(trust_open(&hub.trust, dir, NULL), 0);
    hub.watcher = watcher_open(&hub.loop, NULL, NULL);
    struct projects_opts o = {.loop = &hub.loop,
                              .home = &hub.home,
                              .settings = hub.settings,
                              .trust = hub.trust,
                              .watcher = hub.watcher,
                              .changed = on_changed,
                              .judged = on_judged};
    hub.projects = projects_open(&o);
    free(dir);
}

static void close_hub(void)
{
    projects_close(hub.projects);
    watcher_close(hub.watcher);
    TEST_LOOP_END(&hub.loop);
    projects_free(hub.projects);
    trust_close(hub.trust);
    settings_close(hub.settings);
    home_fini(&hub.home);
    config_diags_fini(&hub.faults);
    free(hub.real);
    hub.real = NULL;
}

static void enter(const char *rel)
{
    unsigned n = hub.entered;
    projects_enter(hub.projects, at(rel), on_entered, NULL);
    CHECK_INT(hub.entered, n); // not from inside
    while (hub.entered == n) {
        loop_run_once(&hub.loop, true);
    }
}

/// How long somebody in `rel` waits for an answer.
static int answer_s(const char *rel)
{
    const struct config *c = projects_config(hub.projects, at(rel));
    return c != NULL ? (int)config_int(c, "session.answer_s") : -1;
}

static void wait_answer_s(const char *rel, int n)
{
    while (answer_s(rel) != n) {
        loop_run_once(&hub.loop, true);
    }
}

TEST(settings_are_there_while_somebody_works_in_the_project)
{
    put("p/.afloat/config.toml", "[session]\nanswer_s = 2\n");
    put("p/a/x", "");
    put("p/b/x", "");
    put("plain/x", "");
    open_hub();
    trust("p");
    CHECK_INT(answer_s("p"), -1);
    enter("p/a");
    CHECK_STR(hub.real, at("p/a"));
    CHECK_INT(hub.changed, 1);
    CHECK_INT(answer_s("p/a"), 2);
    CHECK_INT(answer_s("p"), 2);
    CHECK_INT(answer_s("p-beside"), -1);
    enter("p/b");
    enter("plain");
    CHECK_STR(hub.real, at("plain"));
    enter("missing");
    CHECK_INT(hub.nowhere, 1);
    projects_leave(hub.projects, at("plain"));
    projects_leave(hub.projects, at("p/a"));
    CHECK_INT(answer_s("p/b"), 2);
    projects_leave(hub.projects, at("p/b"));
    CHECK_INT(answer_s("p/b"), -1);
    close_hub();
}

TEST(a_project_inside_that_was_made_later_is_not_left_by_who_came_before)
{
    put("p/.afloat/config.toml", "[session]\nanswer_s = 2\n");
    put("p/in/x", "");
    open_hub();
    trust("p");
    enter("p/in"); // in p
    put("p/in/.afloat/config.toml", "[session]\nanswer_s = 3\n");
    put("p/in/y/x", "");
    trust("p/in");
    enter("p/in/y"); // in p/in
    CHECK_INT(answer_s("p/in/y"), 3);
    projects_leave(hub.projects, at("p/in"));
    CHECK_INT(answer_s("p/in/y"), 3);
    CHECK_INT(answer_s("p"), -1);
    projects_leave(hub.projects, at("p/in/y"));
    CHECK_INT(answer_s("p/in/y"), -1);
    close_hub();
}

TEST(a_save_a_broken_file_and_trust_are_followed)
{
    put("p/.afloat/config.toml", "[session]\nanswer_s = 2\n");
    open_hub();
    enter("p");
    CHECK_INT(answer_s("p"), -1); // nobody trusts it
    CHECK_INT(hub.changed, 0);
    trust("p");
    wait_answer_s("p", 2);
    put("p/.afloat/config.toml", "[session]\nanswer_s = 4\n");
    trust("p");
    wait_answer_s("p", 4);
    put("p/.afloat/config.toml", "[session\n");
    trust("p");
    settings_again();
    enter("p"); // read behind that
    CHECK_INT(answer_s("p"), 4);
    put("p/.afloat/config.toml", "[session]\nanswer_s = 5\n"); // by a stranger
    enter("p");
    CHECK_INT(answer_s("p"), -1);
    close_hub();
}

TEST(faults_of_a_project_stand_until_they_are_mended_or_nobody_works_there)
{
    put("p/.afloat/config.toml", "[session]\nanswer_s = 2\n[model]\nnme = \"x\"\n");
    open_hub();
    trust("p");
    enter("p");
    CHECK_INT(hub.faults.n, 1);
    CHECK_INT(hub.faults.p[0].line, 4);
    put("p/.afloat/config.toml", "[session]\nanswer_s = 3\n");
    trust("p");
    wait_answer_s("p", 3);
    CHECK_INT(hub.faults.n, 0);
    put("p/.afloat/config.toml", "[sessoin]\nanswer_s = 3\n");
    trust("p");
    enter("p");
    CHECK_INT(hub.faults.n, 1);
    projects_leave(hub.projects, at("p"));
    projects_leave(hub.projects, at("p"));
    CHECK_INT(hub.faults.n, 0);
    close_hub();
}

TEST(who_is_on_the_way_in_when_the_hub_ends_is_answered)
{
    put("p/.afloat/config.toml", "[session]\nanswer_s = 2\n");
    open_hub();
    trust("p");
    projects_enter(hub.projects, at("p"), on_entered, NULL);
    settings_again();
    close_hub();
    CHECK_INT(hub.entered, 1);
    CHECK_INT(hub.changed, 0);
}
