#include "base/time.h"
#include "unit/hook/fake.h"

// ---- kinds --------------------------------------------------------------------------------------

TEST(observers_all_run_and_answers_are_ignored)
{
    struct fake f[3] = {
        {.id = "a", .answer = HOOK_KEEP}, {.id = "b", .answer = HOOK_FAILED}, {.id = "c"}};
    struct hook *h[3];
    for (int i = 0; i < 3; i++) {
        h[i] = fake_hook(&f[i], "on_begin", HOOK_OBSERVE, NULL);
    }
    struct hook_set *s = fake_set(h, 3, NULL);
    struct hook_run r = fake_dispatch(s, "on_begin", HOOK_OBSERVE, NULL);
    CHECK_STR(fake_trace, "a b c");
    CHECK_INT(r.result, HOOK_KEEP);
    CHECK_INT(r.ran, 2); // the one that failed is not counted as having run
    CHECK_INT(r.failed, 1);
    hook_set_free(s);
}

TEST(three_arguments_with_a_nil_in_the_middle_arrive_as_three)
{
    struct fake f = {.id = "a"};
    struct hook *h = fake_hook(&f, "e", HOOK_OBSERVE, NULL);
    struct hook_set *s = fake_set(&h, 1, NULL);
    struct fake_args args = {.n = 3, .v = {"1", NULL, "3"}};
    fake_dispatch(s, "e", HOOK_OBSERVE, &args);
    CHECK_INT(f.saw_n, 3);
    CHECK(args.v[1] == NULL);
    CHECK_STR(args.v[2], "3");
    hook_set_free(s);
}

TEST(an_interceptor_that_returns_its_first_value_keeps_the_others)
{
    struct fake f[2] = {{.id = "a", .answer = HOOK_VALUE, .value = "new"},
                        {.id = "b", .answer = HOOK_KEEP}};
    struct hook *h[2] = {fake_hook(&f[0], "e", HOOK_CHAIN, NULL),
                         fake_hook(&f[1], "e", HOOK_CHAIN, NULL)};
    struct hook_set *s = fake_set(h, 2, NULL);
    struct fake_args args = {.n = 3, .v = {"old", "second", "third"}};
    struct hook_run r = fake_dispatch(s, "e", HOOK_CHAIN, &args);
    CHECK_INT(r.result, HOOK_VALUE);
    CHECK_INT(f[1].saw_n, 3);
    CHECK_STR(args.v[0], "new");
    CHECK_STR(args.v[1], "second");
    CHECK_STR(args.v[2], "third");
    hook_set_free(s);
}

TEST(a_chain_keeps_the_previous_value_on_an_error)
{
    struct fake f[3] = {{.id = "a", .answer = HOOK_VALUE, .value = "from a"},
                        {.id = "b", .answer = HOOK_FAILED, .value = "from b"},
                        {.id = "c", .answer = HOOK_KEEP}};
    struct hook *h[3];
    for (int i = 0; i < 3; i++) {
        h[i] = fake_hook(&f[i], "on_final", HOOK_CHAIN, NULL);
    }
    struct hook_set *s = fake_set(h, 3, NULL);
    struct fake_args args = {.n = 1, .v = {"start"}};
    struct hook_run r = fake_dispatch(s, "on_final", HOOK_CHAIN, &args);
    CHECK_STR(fake_trace, "a b c");
    CHECK_STR(args.v[0], "from a");
    CHECK_INT(r.result, HOOK_VALUE);
    CHECK_INT(r.failed, 1);
    CHECK_STR(h[1]->last_error, "b broke");
    CHECK_INT(h[1]->stats.errors, 1);
    hook_set_free(s);
}

static uint64_t noted_ns;

static void note_end(void *arg, struct hook *h, enum hook_answer how, const struct hook_run *r,
                     bool switched_off)
{
    (void)arg;
    (void)h;
    (void)how;
    (void)r;
    (void)switched_off;
    noted_ns = time_mono_ns();
}

static void look_when(void *arg)
{
    struct hook_run *const *run = arg;
    CHECK((*run)->since_ns >= noted_ns);
}

TEST(the_time_that_noting_a_fault_takes_is_not_the_next_handlers)
{
    struct hook_run run, *inside = &run;
    struct fake f[2] = {{.id = "a", .answer = HOOK_FAILED},
                        {.id = "b", .answer = HOOK_KEEP, .inside = look_when, .arg = &inside}};
    struct hook *h[2] = {fake_hook(&f[0], "e", HOOK_CHAIN, NULL),
                         fake_hook(&f[1], "e", HOOK_CHAIN, NULL)};
    struct hook_set *s = fake_set(h, 2, &(struct hook_keeper){.fault = note_end});
    struct fake_args args = {0};
    CHECK(hook_run_start(&run, &(struct hook_run_opts){
                                   .list = hook_set_get(s, STR("e"), HOOK_CHAIN), .args = &args}));
    CHECK_INT(f[1].calls, 1);
    CHECK(noted_ns != 0);
    hook_set_free(s);
}

TEST(a_chain_that_nobody_changed_says_keep)
{
    struct fake f = {.id = "a", .answer = HOOK_KEEP};
    struct hook *h = fake_hook(&f, "on_final", HOOK_CHAIN, NULL);
    struct hook_set *s = fake_set(&h, 1, NULL);
    CHECK_INT(fake_dispatch(s, "on_final", HOOK_CHAIN, NULL).result, HOOK_KEEP);
    hook_set_free(s);
}

TEST(the_first_answer_wins_and_later_ones_do_not_run)
{
    struct fake f[4] = {{.id = "a", .answer = HOOK_KEEP},
                        {.id = "b", .answer = HOOK_FAILED},
                        {.id = "c", .answer = HOOK_VALUE},
                        {.id = "d", .answer = HOOK_VALUE}};
    struct hook *h[4];
    for (int i = 0; i < 4; i++) {
        h[i] = fake_hook(&f[i], "on_resolve_tool", HOOK_FIRST, NULL);
    }
    struct hook_set *s = fake_set(h, 4, NULL);
    struct hook_run r = fake_dispatch(s, "on_resolve_tool", HOOK_FIRST, NULL);
    CHECK_STR(fake_trace, "a b c");
    CHECK_INT(r.result, HOOK_VALUE);
    CHECK(r.by == h[2]);
    hook_set_free(s);
}

static enum hook_answer vote(const enum hook_answer *answers, size_t n)
{
    struct fake f[4] = {{.id = "a"}, {.id = "b"}, {.id = "c"}, {.id = "d"}};
    struct hook *h[4];
    fake_clear();
    for (size_t i = 0; i < n; i++) {
        f[i].answer = answers[i];
        h[i] = fake_hook(&f[i], "on_permission", HOOK_VETO, NULL);
    }
    struct hook_set *s = fake_set(h, n, NULL);
    enum hook_answer result = fake_dispatch(s, "on_permission", HOOK_VETO, NULL).result;
    hook_set_free(s);
    return result;
}

TEST(deny_beats_ask_beats_allow)
{
    CHECK_INT(vote((enum hook_answer[]){HOOK_KEEP, HOOK_KEEP}, 2), HOOK_KEEP);
    CHECK_INT(vote((enum hook_answer[]){HOOK_ALLOW, HOOK_KEEP}, 2), HOOK_ALLOW);
    CHECK_INT(vote((enum hook_answer[]){HOOK_ASK, HOOK_ALLOW}, 2), HOOK_ASK);
    CHECK_INT(vote((enum hook_answer[]){HOOK_ALLOW, HOOK_ASK, HOOK_DENY}, 3), HOOK_DENY);
    CHECK_INT(vote((enum hook_answer[]){HOOK_DENY, HOOK_ALLOW}, 2), HOOK_DENY);
    CHECK_STR(fake_trace, "a"); // nobody can outvote a refusal
}

TEST(a_veto_fails_closed_on_an_error_and_a_time_out)
{
    CHECK_INT(vote((enum hook_answer[]){HOOK_FAILED, HOOK_ALLOW}, 2), HOOK_DENY);
    CHECK_INT(vote((enum hook_answer[]){HOOK_ALLOW, HOOK_TIMEOUT}, 2), HOOK_DENY);
    CHECK_INT(vote((enum hook_answer[]){HOOK_VALUE, HOOK_ALLOW}, 2), HOOK_DENY); // no vote at all
}

TEST(a_vote_in_a_chain_is_a_fault)
{
    struct fake f = {.id = "a", .answer = HOOK_DENY};
    struct hook *h = fake_hook(&f, "e", HOOK_CHAIN, NULL);
    struct hook_set *s = fake_set(&h, 1, NULL);
    struct hook_run r = fake_dispatch(s, "e", HOOK_CHAIN, NULL);
    CHECK_INT(r.result, HOOK_KEEP);
    CHECK_INT(r.failed, 1);
    hook_set_free(s);
}

TEST(a_handler_whose_state_is_gone_keeps_the_reason_it_gave)
{
    struct fake f = {.id = "a", .answer = HOOK_STALE};
    struct hook *h = fake_hook(&f, "e", HOOK_CHAIN, NULL);
    struct hook_set *s = fake_set(&h, 1, NULL);
    struct hook_run r = fake_dispatch(s, "e", HOOK_CHAIN, NULL);
    CHECK_INT(r.failed, 1);
    CHECK_STR(r.fault.msg, "a broke");
    hook_set_free(s);
}

TEST(on_error_block_ends_the_run_with_a_refusal)
{
    struct fake f[2] = {{.id = "a", .answer = HOOK_FAILED}, {.id = "b"}};
    struct hook *h[2] = {fake_hook(&f[0], "on_tool_call", HOOK_CHAIN,
                                   &(struct hook_spec){.terms.on_error = HOOK_BLOCK}),
                         fake_hook(&f[1], "on_tool_call", HOOK_CHAIN, NULL)};
    struct hook_set *s = fake_set(h, 2, NULL);
    struct hook_run r = fake_dispatch(s, "on_tool_call", HOOK_CHAIN, NULL);
    CHECK_INT(r.result, HOOK_DENY);
    CHECK(r.by == h[0]);
    CHECK_STR(r.fault.msg, "a broke");
    CHECK_STR(r.fault.path, "fake.lua");
    CHECK_INT(r.fault.line, 7);
    CHECK_INT(f[1].calls, 0);
    hook_set_free(s);
}

// ---- filters ------------------------------------------------------------------------------------

TEST(a_filter_is_looked_at_before_the_target_is_entered)
{
    struct fake f[3] = {{.id = "exact"}, {.id = "glob"}, {.id = "all"}};
    struct hook *h[3] = {
        fake_hook(&f[0], "on_tool_call", HOOK_CHAIN, &(struct hook_spec){.filter = STR("shell")}),
        fake_hook(&f[1], "on_tool_call", HOOK_CHAIN, &(struct hook_spec){.filter = STR("file_*")}),
        fake_hook(&f[2], "on_tool_call", HOOK_CHAIN, NULL)};
    struct hook_set *s = fake_set(h, 3, NULL);
    const struct hook_list *l = hook_set_get(s, STR("on_tool_call"), HOOK_CHAIN);
    struct hook_run r;
    CHECK(hook_run_start(&r, &(struct hook_run_opts){.list = l, .subject = STR("shell")}));
    CHECK_STR(fake_trace, "exact all");
    fake_clear();
    CHECK(hook_run_start(&r, &(struct hook_run_opts){.list = l, .subject = STR("file_read")}));
    CHECK_STR(fake_trace, "glob all");
    CHECK_INT(h[0]->stats.count, 1);
    hook_set_free(s);
}

// ---- changes during a dispatch ------------------------------------------------------------------

static const struct {
    const char *point;
    enum hook_kind kind;
} every_kind[] = {
    {"on_begin", HOOK_OBSERVE},
    {"on_tool_call", HOOK_CHAIN},
    {"on_resolve_tool", HOOK_FIRST},
    {"on_permission", HOOK_VETO},
};

static void take_back(void *arg)
{
    hook_off(arg);
}

TEST(a_handler_removed_during_dispatch_does_not_run_any_more)
{
    for (size_t i = 0; i < ARRAY_LEN(every_kind); i++) {
        struct fake f[3] = {{.id = "a"}, {.id = "b"}, {.id = "c"}};
        struct hook *h[3];
        for (int j = 0; j < 3; j++) {
            h[j] = fake_hook(&f[j], every_kind[i].point, every_kind[i].kind, NULL);
        }
        struct hook_set *s = fake_set(h, 3, NULL);
        f[0].inside = take_back;
        f[0].arg = h[1];
        fake_clear();
        fake_dispatch(s, every_kind[i].point, every_kind[i].kind, NULL);
        CHECK_STR(fake_trace, "a c");
        hook_set_free(s);
    }
}

TEST(a_handler_may_remove_itself)
{
    for (size_t i = 0; i < ARRAY_LEN(every_kind); i++) {
        struct fake f[2] = {{.id = "a"}, {.id = "b"}};
        struct hook *h[2] = {fake_hook(&f[0], every_kind[i].point, every_kind[i].kind, NULL),
                             fake_hook(&f[1], every_kind[i].point, every_kind[i].kind, NULL)};
        struct hook_set *s = fake_set(h, 2, NULL);
        f[0].inside = take_back;
        f[0].arg = h[0];
        fake_clear();
        fake_dispatch(s, every_kind[i].point, every_kind[i].kind, NULL);
        fake_dispatch(s, every_kind[i].point, every_kind[i].kind, NULL);
        CHECK_STR(fake_trace, "a b b");
        hook_set_free(s);
    }
}

/// What changes its handlers by making a new set, as the generations do.
struct registry {
    struct hook_set *set;
    struct hook_place places[4];
    size_t n;
    struct hook *to_add;
};

static void add_one(void *arg)
{
    struct registry *g = arg;
    if (g->to_add == NULL) {
        return;
    }
    g->places[g->n++] = (struct hook_place){g->to_add, 0};
    g->to_add = NULL;
    g->set = hook_set_new(g->places, g->n, NULL);
}

TEST(a_handler_added_during_dispatch_runs_from_the_next_one)
{
    for (size_t i = 0; i < ARRAY_LEN(every_kind); i++) {
        struct fake f[2] = {{.id = "a"}, {.id = "new"}};
        struct hook *h[2] = {fake_hook(&f[0], every_kind[i].point, every_kind[i].kind, NULL),
                             fake_hook(&f[1], every_kind[i].point, every_kind[i].kind,
                                       &(struct hook_spec){.terms.priority = -1})};
        struct registry g = {.places = {{h[0], 0}}, .n = 1, .to_add = h[1]};
        struct hook_set *first = g.set = hook_set_new(g.places, 1, NULL);
        f[0].inside = add_one;
        f[0].arg = &g;
        fake_clear();
        fake_dispatch(g.set, every_kind[i].point, every_kind[i].kind, NULL);
        CHECK_STR(fake_trace, "a");
        CHECK(g.set != first);
        fake_clear();
        fake_dispatch(g.set, every_kind[i].point, every_kind[i].kind, NULL);
        CHECK_STR(fake_trace, "a new");
        hook_set_free(first);
        hook_set_free(g.set);
        hook_unref(h[0]);
        hook_unref(h[1]);
    }
}

TEST(a_disabled_handler_is_passed_over_until_it_is_enabled)
{
    struct fake f = {.id = "a"};
    struct hook *h = fake_hook(&f, "e", HOOK_OBSERVE, NULL);
    struct hook_set *s = fake_set(&h, 1, NULL);
    hook_enable(h, false);
    fake_dispatch(s, "e", HOOK_OBSERVE, NULL);
    CHECK_INT(f.calls, 0);
    hook_enable(h, true);
    fake_dispatch(s, "e", HOOK_OBSERVE, NULL);
    CHECK_INT(f.calls, 1);
    hook_set_free(s);
}

static struct hook_set *nested_set;

static void dispatch_again(void *arg)
{
    unsigned *depth = arg;
    if ((*depth)++ < 3) {
        fake_dispatch(nested_set, "e", HOOK_OBSERVE, NULL);
    }
}

TEST(a_handler_may_dispatch_its_own_event)
{
    unsigned depth = 0;
    struct fake f[2] = {{.id = "a", .inside = dispatch_again, .arg = &depth}, {.id = "b"}};
    struct hook *h[2] = {fake_hook(&f[0], "e", HOOK_OBSERVE, NULL),
                         fake_hook(&f[1], "e", HOOK_OBSERVE, NULL)};
    nested_set = fake_set(h, 2, NULL);
    fake_dispatch(nested_set, "e", HOOK_OBSERVE, NULL);
    CHECK_STR(fake_trace, "a a a a b b b b");
    hook_set_free(nested_set);
}

// ---- answers that come later --------------------------------------------------------------------

struct bench {
    struct test_clock clock;
    struct loop loop;
    struct hook_run run;
    struct fake_args args;
    unsigned done;
    int pins;
    unsigned faults, switched_off;
};

static void on_done(struct hook_run *run, void *arg)
{
    struct bench *b = arg;
    CHECK(run == &b->run);
    b->done++;
}

static void on_pin(void *arg)
{
    ((struct bench *)arg)->pins++;
}

static void on_unpin(void *arg)
{
    ((struct bench *)arg)->pins--;
}

static void on_fault(void *arg, struct hook *h, enum hook_answer how, const struct hook_run *run,
                     bool switched_off)
{
    struct bench *b = arg;
    CHECK(h != NULL && run->fault.msg[0] != '\0');
    CHECK(how >= HOOK_FAILED);
    b->faults++;
    b->switched_off += switched_off;
}

static struct hook_set *bench_open(struct bench *b, struct hook **hooks, size_t n)
{
    *b = (struct bench){.args = {.n = 1, .v = {"start"}}};
    test_clock_init(&b->clock);
    CHECK_INT(loop_init(&b->loop, &b->clock.clock, NULL), 0);
    const struct hook_keeper keeper = {
        .pin = on_pin, .unpin = on_unpin, .fault = on_fault, .arg = b};
    fake_clear();
    return fake_set(hooks, n, &keeper);
}

static bool bench_start(struct bench *b, const struct hook_set *s, const char *point,
                        enum hook_kind kind)
{
    return hook_run_start(&b->run, &(struct hook_run_opts){
                                       .list = hook_set_get(s, str_of(point), kind),
                                       .loop = &b->loop,
                                       .args = &b->args,
                                       .may_wait = true,
                                       .done = on_done,
                                       .arg = b,
                                   });
}

TEST(a_chain_goes_on_when_a_handler_answers_later)
{
    struct fake f[3] = {{.id = "a"}, {.id = "b", .answer = HOOK_LATER}, {.id = "c"}};
    struct hook *h[3];
    struct bench b;
    for (int i = 0; i < 3; i++) {
        h[i] = fake_hook(&f[i], "on_final", HOOK_CHAIN, NULL);
    }
    struct hook_set *s = bench_open(&b, h, 3);
    CHECK(!bench_start(&b, s, "on_final", HOOK_CHAIN));
    CHECK_STR(fake_trace, "a b");
    CHECK_INT(b.pins, 1); // kept while it waits
    b.args.v[0] = "late";
    hook_run_answer(f[1].waiting, HOOK_VALUE);
    CHECK_STR(fake_trace, "a b c");
    CHECK_INT(b.done, 1);
    CHECK_INT(b.run.result, HOOK_VALUE);
    CHECK_INT(b.run.ran, 3);
    CHECK_INT(b.pins, 0);
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

TEST(a_handler_removed_while_another_waits_does_not_run)
{
    struct fake f[2] = {{.id = "a", .answer = HOOK_LATER}, {.id = "b"}};
    struct bench b;
    struct hook *h[2] = {fake_hook(&f[0], "e", HOOK_OBSERVE, NULL),
                         fake_hook(&f[1], "e", HOOK_OBSERVE, NULL)};
    struct hook_set *s = bench_open(&b, h, 2);
    CHECK(!bench_start(&b, s, "e", HOOK_OBSERVE));
    hook_off(h[1]);
    hook_run_answer(f[0].waiting, HOOK_KEEP);
    CHECK_INT(b.done, 1);
    CHECK_INT(f[1].calls, 0);
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

TEST(a_handler_that_answers_too_late_is_cancelled_and_the_chain_goes_on)
{
    struct fake f[2] = {{.id = "a", .answer = HOOK_LATER}, {.id = "b"}};
    struct bench b;
    struct hook *h[2] = {
        fake_hook(&f[0], "on_final", HOOK_CHAIN, &(struct hook_spec){.terms.timeout_ms = 50}),
        fake_hook(&f[1], "on_final", HOOK_CHAIN, NULL)};
    struct hook_set *s = bench_open(&b, h, 2);
    CHECK(!bench_start(&b, s, "on_final", HOOK_CHAIN));
    CHECK_INT(b.run.timeout_ms, 50);
    test_clock_advance(&b.clock, &b.loop, 49);
    CHECK_INT(b.done, 0);
    test_clock_advance(&b.clock, &b.loop, 1);
    CHECK_INT(b.done, 1);
    CHECK_INT(f[0].cancels, 1);
    CHECK_INT(f[1].calls, 1);
    CHECK_INT(b.faults, 1);
    CHECK_STR(h[0]->last_error, "ran out of time after 50 ms");
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

TEST(a_veto_that_answers_too_late_refuses)
{
    struct fake f = {.id = "a", .answer = HOOK_LATER};
    struct bench b;
    struct hook *h = fake_hook(&f, "on_permission", HOOK_VETO, NULL);
    struct hook_set *s = bench_open(&b, &h, 1);
    CHECK(!bench_start(&b, s, "on_permission", HOOK_VETO));
    test_clock_advance(&b.clock, &b.loop, HOOK_TIMEOUT_MS);
    CHECK_INT(b.done, 1);
    CHECK_INT(b.run.result, HOOK_DENY);
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

TEST(a_late_refusal_stops_the_others)
{
    struct fake f[2] = {{.id = "a", .answer = HOOK_LATER}, {.id = "b"}};
    struct bench b;
    struct hook *h[2] = {fake_hook(&f[0], "on_permission", HOOK_VETO, NULL),
                         fake_hook(&f[1], "on_permission", HOOK_VETO, NULL)};
    struct hook_set *s = bench_open(&b, h, 2);
    CHECK(!bench_start(&b, s, "on_permission", HOOK_VETO));
    hook_run_answer(f[0].waiting, HOOK_DENY);
    CHECK_INT(b.done, 1);
    CHECK_INT(b.run.result, HOOK_DENY);
    CHECK_INT(f[1].calls, 0);
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

TEST(a_cancelled_run_is_silent)
{
    struct fake f[2] = {{.id = "a", .answer = HOOK_LATER}, {.id = "b"}};
    struct bench b;
    struct hook *h[2] = {fake_hook(&f[0], "e", HOOK_CHAIN, NULL),
                         fake_hook(&f[1], "e", HOOK_CHAIN, NULL)};
    struct hook_set *s = bench_open(&b, h, 2);
    CHECK(!bench_start(&b, s, "e", HOOK_CHAIN));
    hook_run_cancel(&b.run);
    CHECK_INT(f[0].cancels, 1);
    CHECK_INT(f[1].calls, 0);
    CHECK_INT(b.done, 0);
    CHECK_INT(b.pins, 0);
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

// ---- time-outs in a row -------------------------------------------------------------------------

TEST(three_time_outs_in_a_row_switch_a_handler_off)
{
    struct fake f = {.id = "a", .answer = HOOK_TIMEOUT};
    struct bench b;
    struct hook *h = fake_hook(&f, "e", HOOK_OBSERVE, NULL);
    struct hook_set *s = bench_open(&b, &h, 1);
    for (int i = 0; i < 5; i++) {
        CHECK(bench_start(&b, s, "e", HOOK_OBSERVE));
    }
    CHECK_INT(f.calls, 3);
    CHECK_INT(b.faults, 3);
    CHECK_INT(b.switched_off, 1);
    CHECK(!hook_is_live(h));
    hook_enable(h, true);
    CHECK(bench_start(&b, s, "e", HOOK_OBSERVE));
    CHECK_INT(f.calls, 4);
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

TEST(a_call_in_time_between_two_time_outs_starts_the_count_again)
{
    struct fake f = {.id = "a"};
    struct bench b;
    struct hook *h = fake_hook(&f, "e", HOOK_OBSERVE, NULL);
    struct hook_set *s = bench_open(&b, &h, 1);
    const enum hook_answer answers[] = {HOOK_TIMEOUT, HOOK_TIMEOUT, HOOK_KEEP,
                                        HOOK_TIMEOUT, HOOK_TIMEOUT, HOOK_FAILED};
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        f.answer = answers[i];
        CHECK(bench_start(&b, s, "e", HOOK_OBSERVE));
    }
    CHECK(hook_is_live(h));
    CHECK_INT(b.switched_off, 0);
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

TEST(a_handler_that_enforces_goes_on_refusing_however_slow)
{
    struct fake f[2] = {{.id = "veto", .answer = HOOK_TIMEOUT},
                        {.id = "block", .answer = HOOK_TIMEOUT}};
    struct bench b;
    struct hook *h[2] = {fake_hook(&f[0], "on_permission", HOOK_VETO, NULL),
                         fake_hook(&f[1], "on_tool_call", HOOK_CHAIN,
                                   &(struct hook_spec){.terms.on_error = HOOK_BLOCK})};
    struct hook_set *s = bench_open(&b, h, 2);
    for (int i = 0; i < 5; i++) {
        CHECK(bench_start(&b, s, "on_permission", HOOK_VETO));
        CHECK_INT(b.run.result, HOOK_DENY);
        CHECK(bench_start(&b, s, "on_tool_call", HOOK_CHAIN));
        CHECK_INT(b.run.result, HOOK_DENY);
    }
    CHECK_INT(f[0].calls, 5);
    CHECK_INT(f[1].calls, 5);
    CHECK_INT(b.switched_off, 0);
    hook_set_free(s);
    TEST_LOOP_END(&b.loop);
}

TEST(statistics_count_every_end_and_every_fault)
{
    struct fake f = {.id = "a"};
    struct hook *h = fake_hook(&f, "e", HOOK_OBSERVE, NULL);
    struct hook_set *s = fake_set(&h, 1, NULL);
    for (int i = 0; i < 10; i++) {
        f.answer = i == 3 ? HOOK_FAILED : HOOK_KEEP;
        fake_dispatch(s, "e", HOOK_OBSERVE, NULL);
    }
    CHECK_INT(h->stats.count, 10);
    CHECK_INT(h->stats.errors, 1);
    CHECK(hook_stats_percentile(&h->stats, 50) != 0);
    CHECK(hook_stats_percentile(&h->stats, 99) >= hook_stats_percentile(&h->stats, 50));
    CHECK_STR(h->last_error, "a broke");
    hook_set_free(s);
}
