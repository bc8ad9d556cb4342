// The work of a worktree copied to a remote while it is in use, and taken from there by another hub.

#include "unit/git/rig.h"

static const char *pushed, *url;

static void on_pushed(void *arg, int status, const struct err *e, const struct git_pushed *r)
{
    (void)arg;
    rig.calls++;
    rig.status = status;
    rig.err = e != NULL ? *e : (struct err){0};
    pushed = arena_strdup(&rig.arena, str_of(r->commit));
    url = arena_strdup(&rig.arena, str_of(r->url));
}

static void on_pulled(void *arg, int status, const struct err *e)
{
    (void)arg;
    rig.calls++;
    rig.status = status;
    rig.err = e != NULL ? *e : (struct err){0};
}

static void begin(void)
{
    rig_begin();
    rig_need_box();
    rig_sh("git init -q --bare far.git && git -C repo remote add far '%s/far.git'", rig.base);
    CHECK_OK(rig_add());
}

static bool adopt;

static void start_push(const char *last, const char *tried)
{
    const char *const list[] = {tried, NULL};
    struct git_push p = {.of = rig_worktree(),
                         .remote = "far",
                         .last = last,
                         .tried = list,
                         .adopt = adopt,
                         .message = "in progress"};
    rig.job = git_push(rig.git, &p, on_pushed, NULL);
}

static int push(const char *remote, const char *last, bool live)
{
    struct git_push p = {
        .of = rig_worktree(), .remote = remote, .last = last, .message = "in progress"};
    p.of.dir = live ? p.of.dir : NULL;
    rig.job = git_push(rig.git, &p, on_pushed, NULL);
    return rig_wait();
}

/// Its remote says nothing until the end of time, once it has the work (`post-receive`) or before.
static void block(const char *hook)
{
    rig_sh("cd far.git && echo 0 >began && mkfifo pipe && cd hooks && printf '#!/bin/sh\\ntrap "
           "\"\" TERM\\n"
           "echo $$ >began\\ncat pipe\\n' >%s && chmod +x %s",
           hook, hook);
}

static void unblock(const char *hook)
{
    rig_sh("cd far.git && rm pipe hooks/%s", hook);
}

/// The push waits for the hook.
static void wait_stuck(void)
{
    while (strcmp(rig_out("cat far.git/began"), "0") == 0) {
        CHECK_INT(rig.calls, 0);
        loop_run_once(&rig.loop, true);
    }
}

static int pull(const char *root, const char *branch, bool own)
{
    struct git_pull p = {.root = arena_printf(&rig.arena, "%s/%s", rig.base, root),
                         .remote = arena_printf(&rig.arena, "%s/far.git", rig.base),
                         .branch = branch,
                         .own = own};
    rig.job = git_pull(rig.git, &p, on_pulled, NULL);
    return rig_wait();
}

static const char *far(const char *path)
{
    return rig_out("git -C far.git show 'afloat/bot-1:%s'", path);
}

TEST(files_as_they_are_go_to_the_remote_and_the_worktree_stays_as_it_was)
{
    begin();
    rig_sh("cd '%s' && echo own >own && git add own && git commit -qm own && echo begun >begun",
           rig.dir);
    const char *before = rig_out("git -C '%s' status --porcelain", rig.dir);
    const char *state = rig_state(rig.repo);
    CHECK_OK(push("far", NULL, true));
    CHECK_STR(url, rig_out("echo '%s/far.git'", rig.base));
    CHECK_STR(far("own"), "own");
    CHECK_STR(far("begun"), "begun");
    CHECK_STR(rig_out("git -C far.git log -1 --format=%%s afloat/bot-1"), "in progress");
    CHECK_STR(rig_out("git -C far.git rev-parse afloat/bot-1"), pushed);
    CHECK_STR(rig_out("git -C '%s' status --porcelain", rig.dir), before);
    CHECK_STR(rig_state(rig.repo), state);
    CHECK_STR(rig_out("git -C repo rev-parse afloat/bot-1"), rig.added.start);
    rig_end();
}

TEST(each_push_replaces_the_one_before_and_the_end_is_the_branch)
{
    begin();
    rig_sh("cd '%s' && echo 1 >begun", rig.dir);
    CHECK_OK(push("far", NULL, true));
    const char *first = pushed;
    rig_sh("cd '%s' && echo 2 >begun", rig.dir);
    CHECK_OK(push("far", first, true));
    CHECK_STR(far("begun"), "2");
    CHECK_STR(rig_out("git -C far.git rev-parse afloat/bot-1^"), rig.added.start);
    CHECK_OK(rig_commit());
    CHECK_OK(push("far", pushed, false));
    CHECK_STR(pushed, rig.committed.head);
    CHECK_STR(rig_out("git -C far.git rev-parse afloat/bot-1"), rig.committed.head);
    rig_end();
}

TEST(who_does_not_know_the_last_push_cannot_overwrite_it)
{
    begin();
    CHECK_OK(push("far", NULL, true));
    const char *first = pushed;
    rig_sh("cd '%s' && echo 2 >begun", rig.dir);
    CHECK_OK(push("far", first, true));
    const char *second = pushed;
    rig_sh("cd '%s' && echo 3 >begun", rig.dir);
    CHECK_INT(push("far", first, true), ERR_CONFLICT);
    CHECK_INT(push("far", NULL, true), ERR_CONFLICT);
    CHECK_STR(rig_out("git -C far.git rev-parse afloat/bot-1"), second);
    CHECK(push("nowhere", NULL, true) < 0);
    rig_end();
}

TEST(a_refused_push_says_why_in_the_words_of_the_remote)
{
    begin();
    rig_sh("cd far.git && printf '#!/bin/sh\\nprintf \"no pushes on \\\\033[31mSunday\\\\n\" "
           ">&2\\nexit 1\\n' "
           ">hooks/pre-receive && chmod +x hooks/pre-receive");
    CHECK_INT(push("far", NULL, true), UV_EIO);
    CHECK_STR(rig.err.msg, "cannot push the work: remote rejected (pre-receive hook declined); "
                           "no pushes on \\x1b[31mSunday");
    CHECK_INT(push("far", NULL, false), UV_EIO);
    CHECK(strstr(rig.err.msg, "Sunday") != NULL);
    rig_end();
}

TEST(another_hub_clones_and_goes_on_where_the_last_push_was)
{
    begin();
    rig_sh("git -C repo push -q far main && cd '%s' && echo begun >begun", rig.dir);
    CHECK_OK(push("far", NULL, true));
    CHECK_OK(pull("clones/x", "afloat/bot-1", true));
    CHECK_STR(rig_out("git -C clones/x rev-parse afloat/bot-1"), pushed);
    rig_sh("git -C far.git symbolic-ref HEAD refs/heads/main");
    CHECK_OK(pull("clones/x", NULL, true)); // for a run that begins there
    CHECK_STR(rig_out("git -C clones/x rev-parse HEAD"), rig_out("git -C repo rev-parse main"));
    CHECK_OK(pull("repo", "afloat/bot-1", false)); // although a worktree has that branch
    CHECK_STR(rig_out("git -C repo rev-parse afloat/bot-1"), pushed);
    struct git_add again = {.repo = rig.repo,
                            .dir = arena_printf(&rig.arena, "%s/other/bot-1", rig.base),
                            .branch = "afloat/bot-1",
                            .from = GIT_FROM_BRANCH};
    CHECK_INT(rig_add_with(&again), ERR_CONFLICT);
    again.steal = true;
    CHECK_OK(rig_add_with(&again));
    CHECK_STR(rig_out("cat other/bot-1/begun"), "begun");
    CHECK_INT(pull("repo", "afloat/none", false), ERR_NOT_FOUND);
    rig_end();
}

TEST(a_push_that_arrived_without_an_answer_is_replaced_by_the_next_one)
{
    begin();
    CHECK_OK(push("far", NULL, true));
    const char *first = pushed;
    rig_sh("cd '%s' && echo 2 >begun", rig.dir);
    block("post-receive");
    rig.calls = 0;
    start_push(first, NULL);
    wait_stuck();
    git_cancel(rig.job);
    CHECK_INT(rig_wait(), UV_ECANCELED);
    unblock("post-receive");
    const char *second = pushed;
    CHECK_STR(rig_out("git -C far.git rev-parse afloat/bot-1"), second);
    rig_sh("cd '%s' && echo 3 >begun", rig.dir);
    CHECK_INT(push("far", first, true), ERR_CONFLICT); // nobody told it
    CHECK_STR(pushed, "");
    start_push(first, first);
    CHECK_INT(rig_wait(), ERR_CONFLICT); // that was not it
    start_push(first, second);
    CHECK_OK(rig_wait());
    CHECK_STR(far("begun"), "3");
    adopt = true; // the hub was killed and knows of none
    rig_sh("cd '%s' && echo 4 >begun", rig.dir);
    start_push(first, NULL);
    CHECK_OK(rig_wait());
    CHECK_STR(far("begun"), "4");
    rig_sh("git clone -q -b afloat/bot-1 far.git theirs && cd theirs && echo 5 >begun && "
           "git commit -qam 5 && git push -q");
    start_push(first, NULL);
    CHECK_INT(rig_wait(), ERR_CONFLICT); // what the repository does not have is somebody else's
    CHECK_STR(far("begun"), "5");
    rig_sh("git -C far.git update-ref refs/heads/afloat/bot-1 '%s'", second);
    adopt = false;
    start_push(second, NULL);
    CHECK_OK(rig_wait());
    start_push(pushed, second); // the other way: the remote has what we know, not what it may have
    CHECK_OK(rig_wait());
    rig_end();
}

TEST(a_push_waits_for_its_remote_as_long_as_it_was_told)
{
    begin();
    block("pre-receive");
    start_push(NULL, NULL);
    git_set_patience(rig.job, 50);
    CHECK_INT(rig_wait(), ERR_TIMEOUT);
    CHECK_STR(rig.err.msg, "the remote did not answer within 0 s");
    unblock("pre-receive");
    start_push(NULL, NULL); // that was for one job
    CHECK_OK(rig_wait());
    rig_end();
}

TEST(a_remote_that_never_answers_has_little_time_in_a_hurry)
{
    begin();
    for (int later = 0; later < 2; later++) {
        block("pre-receive");
        rig.calls = 0;
        start_push(NULL, NULL);
        if (!later) {
            wait_stuck();
            git_hurry(rig.git, 50);
        }
        CHECK_INT(rig_wait(), ERR_TIMEOUT);
        CHECK_STR(rig.err.msg, "the remote did not answer within 0 s");
        // also the hook, which ignores SIGTERM
        CHECK_STR(rig_out("p=$(cat far.git/began) && test ! -d \"/proc/$p\" || echo alive"), "");
        unblock("pre-receive");
    }
    rig_end();
}
