#include "unit/bind/rig.h"

// Somebody with git, who writes down what he is asked and answers in the next turn of the loop.

static struct {
    struct buf heard; // "create repo branch base", a line each
    bind_answer_cb *cb;
    void *arg;
    const char *json, *why;
} fake;

static void fake_answer(void *arg)
{
    (void)arg;
    bind_answer_cb *cb = fake.cb;
    fake.cb = NULL;
    cb(fake.arg, str_of(fake.json), fake.why);
}

static void fake_ask(bind_answer_cb *cb, void *arg)
{
    CHECK(fake.cb == NULL);
    fake.cb = cb;
    fake.arg = arg;
    loop_defer(&l, fake_answer, NULL);
}

static void fake_create(void *arg, const char *repo, const char *branch, const char *base,
                        bind_answer_cb *cb, void *cb_arg)
{
    CHECK(arg == &fake);
    buf_addf(&fake.heard, "create %s %s %s\n", repo, branch, base != NULL ? base : "-");
    fake_ask(cb, cb_arg);
}

static void fake_remove(void *arg, const char *path, bind_answer_cb *cb, void *cb_arg)
{
    CHECK(arg == &fake);
    buf_addf(&fake.heard, "remove %s\n", path);
    fake_ask(cb, cb_arg);
}

static void fake_list(void *arg, const char *repo, bind_answer_cb *cb, void *cb_arg)
{
    CHECK(arg == &fake);
    buf_addf(&fake.heard, "list %s\n", repo);
    fake_ask(cb, cb_arg);
}

static void begin(const char *json, const char *why)
{
    struct bind_worktrees w = {
        .create = fake_create, .remove = fake_remove, .list = fake_list, .arg = &fake};
    memset(&fake, 0, sizeof fake);
    fake.json = json;
    fake.why = why;
    buf_init(&fake.heard, SIZE_MAX);
    rig_open();
    bind_set_worktrees(rig.bind, &w);
}

static void end(void)
{
    rig_close();
    buf_fini(&fake.heard);
}

TEST(worktrees_are_made_listed_and_removed_by_who_has_git)
{
    begin("{\"path\":\"/w/x\",\"branch\":\"x\",\"worktrees\":[{\"path\":\"/w/x\"}]}", NULL);
    rig_run("local t = worktree.create{repo='/r', branch='x'} say(t.path, t.branch)");
    CHECK(rig_said("/w/x x"));
    rig_run("local t = worktree.create{repo='/r', branch='y', base='v1'} say(t.path)");
    rig_run("local t = worktree.list('/r') say(#t, t[1].path)");
    CHECK(rig_said("1 /w/x"));
    fake.json = "";
    rig_run("say(worktree.remove('/w/x'))");
    CHECK(rig_said("true"));
    CHECK_STR(buf_z(&fake.heard), "create /r x -\ncreate /r y v1\nlist /r\nremove /w/x\n");
    end();
}

TEST(what_git_refuses_is_nil_and_why)
{
    begin(NULL, "no such branch");
    rig_run("say(worktree.create{repo='/r', branch='x', base='nope'})");
    CHECK(rig_said("nil worktree.create: no such branch"));
    bind_set_worktrees(rig.bind, NULL);
    rig_run("say(worktree.list('/r'))");
    CHECK(rig_said("nil worktree.list: the hub is starting or stopping: ask it later"));
    end();
}

TEST(what_is_no_wish_is_an_error)
{
    begin("{}", NULL);
    CHECK(strstr(rig_fault("a", "worktree.create({repo='/r'}, say)"), "branch") != NULL);
    CHECK(strstr(rig_fault("b", "worktree.create({repo='/r', branch='x', form='y'}, say)"),
                 "form") != NULL);
    CHECK(strstr(rig_fault("c", "worktree.remove(nil, say)"), "path") != NULL);
    CHECK_STR(buf_z(&fake.heard), "");
    end();
}

TEST(the_hub_knows_what_is_there_and_handlers_hear_of_it)
{
    begin("{}", NULL);
    rig_load("a",
             "hooks.on('worktree_created', 'c', function(w) say('made', w.path, w.branch) end) "
             "hooks.on('worktree_deleted', 'd', function(w) say('gone', w.path) end)");
    bind_worktree_changed(rig.bind, true, "/w/x", "x", "/r");
    bind_worktree_changed(rig.bind, true, "/w/y", "y", "/r");
    rig_wait("made /w/x x");
    rig_wait("made /w/y y");
    rig_run("local t = hub.get_worktrees() say(#t, t[1].path, t[2].branch, t[1].repository)");
    CHECK(rig_said("2 /w/x y /r"));
    bind_worktree_changed(rig.bind, false, "/w/x", "x", "/r");
    rig_wait("gone /w/x");
    rig_run("local t = hub.get_worktrees() say(#t, t[1].path)");
    CHECK(rig_said("1 /w/y"));
    end();
}
