#include "unit/bind/ops.h"

TEST(worktrees_are_made_listed_and_removed_by_who_has_git)
{
    fake_open("{\"path\":\"/w/x\",\"branch\":\"x\",\"worktrees\":[{\"path\":\"/w/x\"}]}");
    rig_run("local t = worktree.create{repo='/r', branch='x'} say(t.path, t.branch)");
    CHECK(rig_said("/w/x x"));
    rig_run("local t = hub.worktree.create{repo='/r', branch='y', base='v1'} say(t.path)");
    rig_run("local t = worktree.list('/r') say(#t, t[1].path)");
    CHECK(rig_said("1 /w/x"));
    rig_run("say(worktree.remove('/w/x'))");
    CHECK(rig_said("true"));
    static const char *const heard[] = {"\"repo\":\"/r\"", "\"branch\":\"x\"", "\"branch\":\"y\"",
                                        "\"base\":\"v1\""};
    for (size_t i = 0; i < ARRAY_LEN(heard); i++) {
        CHECK(strstr(buf_z(&fake.heard), heard[i]) != NULL);
    }
    CHECK(strstr(buf_z(&fake.heard), "worktree.list {\"repo\":\"/r\"}\n"
                                     "worktree.remove {\"path\":\"/w/x\"}\n") != NULL);
    fake_close();
}

TEST(what_git_refuses_is_nil_and_why)
{
    fake_open("{}");
    fake_fails(PROBLEM_NOT_FOUND, "no such branch");
    rig_run("say(worktree.create{repo='/r', branch='x', base='nope'})");
    CHECK(rig_said("nil worktree.create: no such branch NOT_FOUND"));
    bind_set_ops(rig.bind, NULL, NULL);
    rig_run("say(worktree.list('/r'))");
    CHECK(rig_said("nil worktree.list: the hub is starting or stopping; try again later STOPPING"));
    fake_close();
}

TEST(what_is_no_wish_is_an_error)
{
    fake_open("{}");
    CHECK(strstr(rig_fault("a", "worktree.create({repo='/r'}, say)"), "branch") != NULL);
    CHECK(strstr(rig_fault("b", "worktree.create({repo='/r', branch='x', form='y'}, say)"),
                 "form") != NULL);
    CHECK(strstr(rig_fault("c", "worktree.remove(nil, say)"), "path") != NULL);
    CHECK_STR(buf_z(&fake.heard), "");
    fake_close();
}

TEST(the_hub_knows_what_is_there_and_handlers_hear_of_it)
{
    fake_open("{}");
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
    fake_close();
}
