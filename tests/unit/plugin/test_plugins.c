// The plugins' source: what is found, what is decided, what is kept. Programs are those of plugs.h.

#include <fcntl.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "plugin/plugins_int.h"
#include "unit/plugin/plugs.h"

static void begin(struct plugs *h)
{
    plugs_home(h);
}

static void end(struct plugs *h)
{
    plugs_close(h);
    plugs_fini(h);
}

// ---- finding ------------------------------------------------------------------------------------

TEST(files_and_directories_of_every_user_layer_load)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/one.lua", "tool one\n");
    plugs_write(&h, "plugins/two/init.lua", "tool two\n");
    plugs_write(&h, "shared/plugins/three.lua", "tool three\n");
    plugs_write(&h, "profiles/default/plugins/four.lua", "tool four\n");
    plugs_open(&h);
    CHECK(plugs_has_tool(&h, "one") && plugs_has_tool(&h, "two"));
    CHECK(plugs_has_tool(&h, "three") && plugs_has_tool(&h, "four"));
    CHECK_STR(plugs_row(&h, "four").layer, "user-profile");
    CHECK_INT(h.enters, 4);
    end(&h);
}

TEST(a_plugin_of_a_later_layer_serves_and_lists_what_it_replaces)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/same.lua", "tool early\n");
    plugs_write(&h, "profiles/default/plugins/same.lua", "tool late\n");
    plugs_open(&h);
    CHECK(plugs_has_tool(&h, "late"));
    CHECK(!plugs_has_tool(&h, "early"));
    struct plugin_row r = plugs_row(&h, "same");
    CHECK_INT(r.n_shadows, 1);
    CHECK(strstr(r.shadows[0]->path, "/plugins/same.lua") != NULL);
    end(&h);
}

TEST(two_of_one_name_in_one_layer_are_a_duplicate_that_names_both)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/same.lua", "tool first\n");
    plugs_write(&h, "shared/plugins/same.lua", "tool second\n");
    plugs_open(&h);
    const struct gen_diag *d = plugs_diag(&h, DIAG_NAME_DUPLICATE);
    CHECK(d != NULL && strstr(d->message, "plugins/same.lua") != NULL);
    CHECK(plugs_has_tool(&h, "first") && !plugs_has_tool(&h, "second"));
    plugs_remove(&h, "plugins/same.lua");
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "second"));
    CHECK(plugs_diag(&h, DIAG_NAME_DUPLICATE) == NULL);
    end(&h);
}

TEST(a_saved_file_is_live_and_a_deleted_one_goes)
{
    struct plugs h;
    begin(&h);
    plugs_open(&h);
    plugs_write(&h, "plugins/a.lua", "tool a1\n"); // perhaps before the watch has begun
    PLUGS_WAIT(&h, plugs_has_tool(&h, "a1"));
    plugs_write(&h, "plugins/a.lua", "tool a2\n");
    PLUGS_WAIT(&h, plugs_has_tool(&h, "a2"));
    CHECK(!plugs_has_tool(&h, "a1"));
    CHECK_INT(plugs_row(&h, "a").unit->revision, 2);
    plugs_remove(&h, "plugins/a.lua");
    PLUGS_WAIT(&h, !plugs_has_tool(&h, "a2"));
    CHECK_INT(plugins_count(h.plugins), 0);
    end(&h);
}

TEST(a_file_that_the_watcher_has_not_called_whole_is_not_read_by_its_runs)
{
    struct plugs h;
    struct plugin_row row;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a1\n");
    plugs_open(&h);
    char *half = path_join(h.home.dir, "plugins/half.lua");
    int fd = open(half, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    plugs_write(&h, "plugins/a.lua", "tool a2\n");
    while (!plugs_has_tool(&h, "a2")) { // written all the time: it never rests
        CHECK_INT(write(fd, "\n", 1), 1);
        loop_run_once(&h.loop, true);
    }
    CHECK(!plugins_find(h.plugins, STR("half"), &row));
    CHECK_INT(write(fd, "tool hole\n", 10), 10);
    close(fd);
    PLUGS_WAIT(&h, plugs_has_tool(&h, "hole"));
    free(half);
    end(&h);
}

static void hold(void *sem)
{
    sem_wait(sem);
}

static void let_go(void *sem)
{
    (void)sem;
}

TEST(a_file_that_changes_after_the_watcher_read_it_runs_as_it_was_read)
{
    struct plugs h;
    sem_t sem;
    struct tree first;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a0\n");
    plugs_open(&h);
    plugs_write(&h, "plugins/b.lua", "tool b0\n");
    PLUGS_WAIT(&h, plugs_has_tool(&h, "b0")); // the watch has begun
    sem_init(&sem, 0, 0);
    work_submit(h.plugins->lane, 0, hold, let_go, &sem); // nothing can be looked at meanwhile
    plugs_write(&h, "plugins/a.lua", "tool a1\n");
    PLUGS_WAIT(&h, gen_is_running(h.engine));
    char *path = path_join(h.home.dir, "plugins/a.lua");
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK_INT(write(fd, "throw\n", 6), 6); // half of the next save
    CHECK_INT(sem_post(&sem), 0);
    PLUGS_WAIT(&h, plugs_has_tool(&h, "a1") || plugs_diag(&h, DIAG_LOAD_FAILED) != NULL);
    CHECK(plugs_has_tool(&h, "a1"));
    tree_of_file(&first, "a.lua", STR("tool a1\n"));
    CHECK_STR(plugs_row(&h, "a").hash, first.hash);
    CHECK_INT(close(fd), 0);
    PLUGS_WAIT(&h, plugs_diag(&h, DIAG_LOAD_FAILED) != NULL); // now it is whole, and broken
    CHECK(plugs_has_tool(&h, "a1"));
    CHECK_STR(plugs_row(&h, "a").hash, first.hash);
    tree_fini(&first);
    sem_destroy(&sem);
    free(path);
    end(&h);
}

// ---- nothing changed ----------------------------------------------------------------------------

TEST(a_reload_without_a_change_is_silent)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_write(&h, "plugins/b/init.lua", "tool b\n");
    plugs_open(&h);
    uint64_t n = plugs_number(&h);
    size_t loads = h.loads, enters = h.enters;
    buf_clear(&h.events);
    const struct gen_report *r = plugs_reload(&h, false, false);
    CHECK(!r->committed);
    CHECK_INT(plugs_number(&h), n);
    CHECK_INT(h.loads, loads);
    CHECK_INT(h.enters, enters);
    CHECK_STR(buf_z(&h.events), "");
    plugs_write(&h, "plugins/a.lua", "tool a\n"); // the same bytes in another file
    r = plugs_reload(&h, false, false);
    CHECK(!r->committed);
    CHECK_INT(h.loads, loads);
    end(&h);
}

TEST(force_runs_again_what_did_not_change)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_open(&h);
    const struct gen_report *r = plugs_reload(&h, true, false);
    CHECK(r->committed);
    CHECK_INT(plugs_row(&h, "a").unit->revision, 2);
    end(&h);
}

TEST(a_dry_run_says_and_does_nothing)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "config.toml", "[[plugins]]\npath = \"a.lua\"\nhot = \"manual\"\n");
    plugs_write(&h, "a.lua", "tool a\n");
    plugs_open(&h);
    uint64_t n = plugs_number(&h);
    plugs_write(&h, "a.lua", "tool b\n");
    const struct gen_report *r = plugs_reload(&h, false, true);
    CHECK(r->dry_run && !r->committed);
    CHECK_INT(r->n_rows, 1);
    CHECK_INT(r->rows[0].state, GEN_CHANGED);
    CHECK_INT(plugs_number(&h), n);
    CHECK(plugs_has_tool(&h, "a"));
    r = plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "b"));
    end(&h);
}

// ---- the last good ------------------------------------------------------------------------------

TEST(a_broken_save_keeps_the_last_good_and_stands_until_mended)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_open(&h);
    plugs_write(&h, "plugins/a.lua", "throw\n");
    const struct gen_report *r = plugs_reload(&h, false, false);
    CHECK(!r->ok && !r->committed);
    CHECK(plugs_has_tool(&h, "a"));
    struct plugin_row row = plugs_row(&h, "a");
    CHECK_INT(row.state, GEN_FAILED);
    CHECK(row.unit != NULL && row.pending_hash != NULL);
    CHECK_STR(row.pending_error, "it threw");
    size_t tries = h.tries;
    r = plugs_reload(&h, false, false);
    CHECK(!r->ok && plugs_diag(&h, DIAG_LOAD_FAILED) != NULL);
    CHECK_INT(h.tries, tries); // just this failed already
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    r = plugs_reload(&h, false, false);
    CHECK(r->ok);
    CHECK_INT(plugs_row(&h, "a").state, GEN_LOADED);
    CHECK_INT(plugs_row(&h, "a").unit->revision, 1);
    end(&h);
}

TEST(the_last_good_survives_a_restart)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_open(&h);
    plugs_close(&h);
    plugs_write(&h, "plugins/a.lua", "throw\n");
    plugs_open(&h);
    CHECK(plugs_has_tool(&h, "a"));
    CHECK_INT(plugs_row(&h, "a").state, GEN_FAILED);
    CHECK(plugs_diag(&h, DIAG_LOAD_FAILED) != NULL);
    end(&h);
}

TEST(one_broken_plugin_of_many_is_one_failure)
{
    struct plugs h;
    begin(&h);
    for (int i = 0; i < 100; i++) {
        char rel[64], text[64];
        snprintf(rel, sizeof rel, "plugins/p%d.lua", i);
        snprintf(text, sizeof text, i % 20 == 0 ? "throw\n" : "tool t%d\n", i);
        plugs_write(&h, rel, text);
    }
    plugs_open(&h);
    size_t serving = 0, failed = 0;
    for (size_t i = 0; i < plugins_count(h.plugins); i++) {
        struct plugin_row r = plugins_at(h.plugins, i);
        serving += r.unit != NULL;
        failed += r.state == GEN_FAILED;
    }
    CHECK_INT(serving, 95);
    CHECK_INT(failed, 5);
    end(&h);
}

// ---- going back ---------------------------------------------------------------------------------

TEST(undo_brings_the_version_before_back_and_goes_further)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool one\n");
    plugs_open(&h);
    plugs_write(&h, "plugins/a.lua", "tool two\n");
    plugs_reload(&h, false, false);
    plugs_write(&h, "plugins/a.lua", "tool three\n");
    uint64_t n = plugs_reload(&h, false, false)->generation;
    const struct gen_report *r = plugs_undo(&h, 0);
    CHECK_INT(r->generation, n + 1);
    CHECK(plugs_has_tool(&h, "two") && !plugs_has_tool(&h, "three"));
    CHECK_INT(plugs_row(&h, "a").state, GEN_HELD);
    plugs_undo(&h, 0);
    CHECK(plugs_has_tool(&h, "one") && !plugs_has_tool(&h, "two"));
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "one"));
    plugs_reload(&h, true, false);
    CHECK(plugs_has_tool(&h, "three"));
    CHECK_INT(plugs_row(&h, "a").state, GEN_LOADED);
    end(&h);
}

TEST(a_held_version_survives_a_restart_and_ends_with_a_save)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool one\n");
    plugs_open(&h);
    plugs_write(&h, "plugins/a.lua", "tool two\n");
    plugs_reload(&h, false, false);
    plugs_undo(&h, 0);
    uint64_t n = plugs_number(&h);
    plugs_close(&h);
    plugs_open(&h);
    CHECK(plugs_number(&h) > n);
    CHECK(plugs_has_tool(&h, "one"));
    CHECK_INT(plugs_row(&h, "a").state, GEN_HELD);
    plugs_write(&h, "plugins/a.lua", "tool three\n");
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "three"));
    end(&h);
}

TEST(undo_brings_a_deleted_plugin_back_and_takes_an_added_one_out)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_open(&h);
    plugs_remove(&h, "plugins/a.lua");
    plugs_reload(&h, false, false);
    CHECK(!plugs_has_tool(&h, "a"));
    plugs_undo(&h, 0);
    CHECK(plugs_has_tool(&h, "a"));
    plugs_close(&h);
    plugs_open(&h);
    CHECK(plugs_has_tool(&h, "a")); // from what was kept: the file is gone
    plugs_write(&h, "plugins/b.lua", "tool b\n");
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "b"));
    plugs_undo(&h, 0);
    CHECK(!plugs_has_tool(&h, "b") && plugs_has_tool(&h, "a"));
    CHECK_INT(plugs_row(&h, "b").state, GEN_HELD);
    end(&h);
}

TEST(a_damaged_record_is_not_gone_back_to)
{
    struct plugs h;
    struct err e = {0};
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_write(
        &h, "state/hub.json",
        "{\"plugins\": {\"number\": 7, \"id\": 2, \"past\": [{\"id\": 2, \"generation\": 7, "
        "\"to\": 0, \"trigger\": \"watch\", \"was\": {\"a\": {\"hash\": 1}}}]}}\n");
    plugs_open(&h);
    CHECK(plugs_has_tool(&h, "a"));
    CHECK_INT(plugins_past_count(h.plugins), 1); // of this start
    CHECK_INT(plugins_undo(h.plugins, 0, NULL, NULL, &e), ERR_CONFLICT);
    CHECK(plugs_has_tool(&h, "a"));
    end(&h);
}

TEST(there_is_nothing_to_undo_at_first)
{
    struct plugs h;
    struct err e = {0};
    begin(&h);
    plugs_open(&h);
    CHECK_INT(plugins_undo(h.plugins, 0, NULL, NULL, &e), ERR_CONFLICT);
    CHECK_INT(plugins_undo(h.plugins, 77, NULL, NULL, &e), ERR_NOT_FOUND);
    end(&h);
}

// ---- projects and trust -------------------------------------------------------------------------

static void trust_repo(struct plugs *h, const char *root, bool follow)
{
    struct trust_place p;
    struct trust_scan s;
    struct trust *mine = NULL, *fresh = NULL;
    CHECK_INT(trust_place_of(&p, h->home.dir, root, NULL), 0);
    CHECK_INT(trust_scan(&s, root, NULL), 0);
    CHECK_INT(trust_open(&mine, h->home.dir, NULL), 0);
    CHECK_INT(trust_add(mine, &p, s.items.p, s.items.n, follow, NULL), 0);
    trust_close(mine);
    CHECK_INT(trust_open(&fresh, h->home.dir, NULL), 0);
    trust_adopt(h->trust, fresh);
    trust_scan_fini(&s);
    trust_place_fini(&p);
}

static char *make_repo(struct plugs *h, const char *text)
{
    char *root = xasprintf("%s/repo", test_dir()), *git = path_join(root, ".git");
    CHECK_INT(path_mkdirs(git, 0700, NULL), 0);
    plugs_write(h, "../repo/.afloat/plugins/p.lua", text);
    free(git);
    return root;
}

TEST(a_project_runs_nothing_until_trusted_and_then_what_was_trusted)
{
    struct plugs h;
    begin(&h);
    char *root = make_repo(&h, "tool one\n");
    h.repo = root;
    plugs_open(&h);
    CHECK(!plugs_has_tool(&h, "one"));
    CHECK_INT(plugs_row(&h, "p").state, GEN_UNTRUSTED);
    CHECK_STR(plugs_row(&h, "p").layer, "repo");
    uint64_t n = plugs_number(&h);
    trust_repo(&h, root, false); // reaches the running hub at once
    plugs_wait_generation(&h, n + 1);
    CHECK(plugs_has_tool(&h, "one"));
    plugs_write(&h, "../repo/.afloat/plugins/p.lua", "tool two\n");
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "one") && !plugs_has_tool(&h, "two"));
    CHECK_INT(plugs_row(&h, "p").state, GEN_UNTRUSTED);
    plugs_close(&h);
    plugs_open(&h);
    CHECK(plugs_has_tool(&h, "one") && !plugs_has_tool(&h, "two"));
    trust_repo(&h, root, true);
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "two"));
    plugs_write(&h, "../repo/.afloat/plugins/p.lua", "tool three\n");
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "three"));
    end(&h);
    free(root);
}

TEST(a_projects_plugin_reaches_only_who_works_there)
{
    struct plugs h;
    begin(&h);
    char *root = make_repo(&h, "tool one\n"), *inside = path_join(root, "src");
    char *beside = xasprintf("%s-beside", root);
    plugs_write(&h, "plugins/u.lua", "tool u\n");
    h.repo = root;
    plugs_open(&h);
    trust_repo(&h, root, true);
    plugs_reload(&h, false, false);
    CHECK(plugins_reaches(h.plugins, STR("p"), inside));
    CHECK(!plugins_reaches(h.plugins, STR("p"), beside));
    CHECK(!plugins_reaches(h.plugins, STR("p"), test_dir()));
    CHECK(plugins_reaches(h.plugins, STR("u"), test_dir()));
    end(&h);
    free(root);
    free(inside);
    free(beside);
}

static void on_entered(void *arg, const char *dir)
{
    CHECK(dir != NULL);
    *(bool *)arg = true;
}

static void enter(struct plugs *h, const char *dir)
{
    bool entered = false;
    plugins_enter_dir(h->plugins, dir, on_entered, &entered);
    while (!entered) {
        loop_run_once(&h->loop, true);
    }
}

TEST(who_came_before_a_project_was_trusted_does_not_close_it_for_others)
{
    struct plugs h;
    begin(&h);
    char *root = make_repo(&h, "tool one\n"), *inside = path_join(root, ".afloat");
    plugs_open(&h);
    enter(&h, inside); // nobody trusts it, so nothing is open
    CHECK(!plugs_has_tool(&h, "one"));
    trust_repo(&h, root, true);
    enter(&h, root);
    CHECK(plugs_has_tool(&h, "one"));
    plugins_leave_dir(h.plugins, inside);
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "one"));
    plugins_leave_dir(h.plugins, root);
    plugs_reload(&h, false, false);
    CHECK(!plugs_has_tool(&h, "one"));
    end(&h);
    free(root);
    free(inside);
}

// ---- entries ------------------------------------------------------------------------------------

TEST(a_configured_entry_that_is_missing_is_said_and_never_replaced)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "config.toml", "[[plugins]]\npath = \"elsewhere/x\"\n");
    plugs_open(&h);
    const struct gen_diag *d = plugs_diag(&h, DIAG_ENTRY_MISSING);
    CHECK(d != NULL && strstr(d->message, "elsewhere/x") != NULL);
    plugs_write(&h, "elsewhere/x/init.lua", "tool x\n");
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "x"));
    CHECK_STR(plugs_row(&h, "x").layer, "config");
    end(&h);
}

TEST(manual_waits_for_who_asks_and_fixed_for_a_restart)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "config.toml",
                "[[plugins]]\npath = \"m.lua\"\nhot = \"manual\"\n"
                "[[plugins]]\npath = \"f.lua\"\nhot = false\n");
    plugs_write(&h, "m.lua", "tool m1\n");
    plugs_write(&h, "f.lua", "tool f1\n");
    plugs_open(&h);
    plugs_write(&h, "m.lua", "tool m2\n");
    plugs_write(&h, "f.lua", "tool f2\n");
    const struct gen_report *r = plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "m2"));
    CHECK(plugs_has_tool(&h, "f1") && !plugs_has_tool(&h, "f2"));
    CHECK_INT(r->n_needs, 1);
    CHECK_INT(r->needs[0].kind, GEN_HUB_RESTART);
    CHECK_STR(r->needs[0].plugin, "f");
    plugs_close(&h);
    plugs_open(&h);
    CHECK(plugs_has_tool(&h, "f2"));
    end(&h);
}

TEST(a_language_without_a_host_fails_in_plain_words)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/snake.py", "x = 1\n");
    plugs_open(&h);
    const struct gen_diag *d = plugs_diag(&h, DIAG_LOAD_FAILED);
    CHECK(d != NULL);
    CHECK_STR(d->message, "no host for python");
    end(&h);
}

TEST(switched_off_none_is_loaded_and_on_again_all_are)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_open(&h);
    plugins_switch(h.plugins, false);
    plugs_reload(&h, false, false);
    CHECK(!plugs_has_tool(&h, "a"));
    plugins_switch(h.plugins, true);
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "a"));
    end(&h);
}

// ---- a version that is dead ---------------------------------------------------------------------

static void kill_version(struct plugs *h, const char *name)
{
    const struct loaded *v = plugs_row(h, name).unit->data;
    h->dead = v->run;
}

TEST(a_version_that_is_dead_is_loaded_again_and_no_other_is)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_write(&h, "plugins/b.lua", "tool b\n");
    plugs_open(&h);
    kill_version(&h, "a");
    const struct gen_report *r = plugs_reload(&h, false, false);
    CHECK(r->ok && r->committed);
    CHECK_INT(plugs_row(&h, "a").unit->revision, 2);
    CHECK_INT(plugs_row(&h, "b").unit->revision, 1);
    CHECK_INT(h.loads, 3);
    end(&h);
}

TEST(a_dead_version_is_loaded_again_when_the_new_file_is_broken)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\n");
    plugs_open(&h);
    kill_version(&h, "a");
    plugs_write(&h, "plugins/a.lua", "throw\n");
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "a"));
    CHECK_INT(plugs_row(&h, "a").unit->revision, 2);
    CHECK_INT(plugs_row(&h, "a").state, GEN_FAILED);
    CHECK(plugs_diag(&h, DIAG_LOAD_FAILED) != NULL);
    end(&h);
}

TEST(a_dead_version_that_does_not_load_again_is_gone_until_its_file_changes)
{
    struct plugs h;
    begin(&h);
    plugs_write(&h, "plugins/a.lua", "tool a\nonce\n");
    plugs_open(&h);
    kill_version(&h, "a");
    plugs_reload(&h, false, false);
    CHECK(plugs_row(&h, "a").unit == NULL);
    CHECK_INT(plugs_row(&h, "a").state, GEN_FAILED);
    CHECK(!plugs_has_tool(&h, "a"));
    CHECK_INT(h.tries, 2);
    plugs_reload(&h, false, false);
    CHECK_INT(h.tries, 2);
    plugs_write(&h, "plugins/a.lua", "tool b\n");
    plugs_reload(&h, false, false);
    CHECK(plugs_has_tool(&h, "b"));
    end(&h);
}
