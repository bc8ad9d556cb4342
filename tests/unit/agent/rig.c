#include "unit/agent/rig.h"

#include "base/path.h"

// ---- nobody above the agent ---------------------------------------------------------------------

static enum agent_reach reach(void *arg, const struct gen_unit *u, const char *session,
                              const char *working_dir)
{
    (void)arg;
    (void)u;
    (void)session;
    (void)working_dir;
    return AGENT_NEVER;
}

static bool known(void *arg, struct str name)
{
    (void)arg;
    (void)name;
    return false;
}

static void loaded(void *arg, void (*each)(void *each_arg, const char *path), void *each_arg)
{
    (void)arg;
    (void)each;
    (void)each_arg;
}

static const char *required(void *arg, size_t i, const char *working_dir)
{
    (void)arg;
    (void)i;
    (void)working_dir;
    return NULL;
}

static struct str file(void *arg, const struct gen_unit *u, const char *path)
{
    (void)arg;
    (void)u;
    (void)path;
    return STR_NULL;
}

struct entering {
    char *dir;
    void (*done)(void *arg, const char *real_dir);
    void *arg;
};

static void on_entering(void *arg)
{
    struct entering *q = arg;
    q->done(q->arg, q->dir);
    free(q->dir);
    free(q);
}

static void enter(void *arg, const char *dir, void (*done)(void *arg, const char *real_dir),
                  void *done_arg)
{
    struct rig *r = arg;
    struct entering *q = xmalloc(sizeof *q);
    *q = (struct entering){.dir = xstrdup(dir), .done = done, .arg = done_arg};
    loop_defer(&r->loop, on_entering, q);
}

static void leave(void *arg, const char *real_dir)
{
    (void)arg;
    (void)real_dir;
}

struct dressing {
    const struct session *s;
    agent_environ_cb *done;
    void *arg;
};

static void on_dressed(void *arg)
{
    struct dressing q = *(struct dressing *)arg;
    free(arg);
    q.done(q.arg, agent_session_environ(q.s));
}

static void dress(void *arg, const struct session *s, agent_environ_cb *done, void *done_arg)
{
    struct dressing *q = xmalloc(sizeof *q);
    *q = (struct dressing){.s = s, .done = done, .arg = done_arg};
    loop_defer(&((struct rig *)arg)->loop, on_dressed, q);
}

_Noreturn static void save(void *arg, struct str name, struct str content, const char *session,
                           void (*done)(void *arg, const struct gen_report *r, const struct err *e),
                           void *done_arg)
{
    (void)arg;
    (void)name;
    (void)content;
    (void)session;
    (void)done;
    (void)done_arg;
    test_fail(__FILE__, __LINE__, "nobody writes plugins here");
}

static void made(void *arg, const struct session *s)
{
    (void)s;
    ((struct rig *)arg)->made++;
}

static void changed(void *arg, const struct session *s)
{
    (void)s;
    ((struct rig *)arg)->changed++;
}

static void ended(void *arg, const struct session *s)
{
    (void)s;
    ((struct rig *)arg)->ended++;
}

static void vacated(void *arg, const struct session *s)
{
    (void)s;
    ((struct rig *)arg)->vacated++;
}

// ---- waiting ------------------------------------------------------------------------------------

_Noreturn static void on_impatient(void *arg)
{
    struct rig *r = arg;
    size_t at = 0;
    struct str id;
    void *of;
    while (r->agent != NULL && map_next(&r->agent->sessions, &at, &id, &of)) {
        const struct session *s = of;
        const struct turn *t = s->turn;
        fprintf(stderr, "session " STR_FMT ": state %d queue %zu notes %d ending %d entering %d\n",
                STR_ARG(id), (int)s->state, s->queue.n, s->notes.head != NULL, s->ending,
                s->entering);
        if (t != NULL) {
            fprintf(stderr, "turn %s: step %d next %d open %zu settling %d call %d\n", t->id,
                    (int)t->step, t->next != NULL, t->n_open, t->settling, t->call != NULL);
        }
    }
    test_fail(__FILE__, __LINE__, "nobody answered in %d ms; %zu busy", RIG_PATIENCE_MS,
              r->agent != NULL ? r->agent->n_busy : 0);
}

static bool is_set(const void *arg)
{
    return *(const bool *)arg;
}

void rig_wait(struct rig *r, const bool *flag)
{
    rig_until(r, is_set, flag);
}

void rig_until(struct rig *r, bool (*is)(const void *arg), const void *arg)
{
    struct timer patience;
    timer_init(&patience, &r->loop, on_impatient, r);
    timer_start(&patience, RIG_PATIENCE_MS);
    while (!is(arg)) {
        loop_run_once(&r->loop, true);
    }
    timer_stop(&patience);
}

static void take_no(struct rig *r, const struct agent_no *no)
{
    r->problem = no != NULL ? no->problem : PROBLEM__COUNT;
    snprintf(r->detail, sizeof r->detail, "%s", no != NULL ? no->detail : "");
}

static void on_told(void *arg)
{
    *(bool *)arg = true;
}

static void on_status(void *arg, int status, const struct err *e)
{
    (void)e;
    CHECK_INT(status, 0);
    *(bool *)arg = true;
}

static const struct config *project_config(void *arg, const char *dir)
{
    (void)arg;
    (void)dir;
    return NULL; // no project brings any
}

// ---- life ---------------------------------------------------------------------------------------

static void load_config(struct rig *r)
{
    static const char *const flags[] = {"retry.tries=1", NULL};
    char *system = path_join(r->home.dir, "system.toml"); // a test may write it
    struct config_sources src = {.home = &r->home, .system_path = system, .flags = flags};
    struct config_diags diags;
    config_diags_init(&diags);
    CHECK_INT(config_load(&r->config, &src, &diags, NULL), 0);
    config_diags_fini(&diags);
    free(system);
}

static void open_store(struct rig *r)
{
    struct store_opts o = {.home = r->home.dir};
    bool ready = false, events = false, choices = false;
    CHECK_INT(store_open(&r->store, &r->loop, &o, on_status, &ready, NULL), 0);
    rig_wait(r, &ready);
    CHECK_INT(event_open(&r->events, &r->loop, r->store, 0, on_status, &events, NULL), 0);
    rig_wait(r, &events);
    r->choices = choices_new(r->store);
    choices_load(r->choices, on_status, &choices);
    rig_wait(r, &choices);
}

void rig_open(struct rig *r, const char *home)
{
    bool ready = false;
    *r = (struct rig){.problem = PROBLEM__COUNT};
    buf_init(&r->text, SIZE_MAX);
    CHECK_INT(loop_init(&r->loop, NULL, NULL), 0);
    CHECK_INT(home_resolve(&r->home, home, NULL), 0);
    CHECK_INT(home_prepare(&r->home, NULL), 0);
    load_config(r);
    config_put(&r->settings, r->config, NULL);
    open_store(r);
    CHECK_INT(trust_open(&r->trust, home, NULL), 0);
    r->http = http_client_open(&r->loop, "test");
    r->providers = providers_open(&r->loop, r->http);
    r->engine = gen_open(&r->loop, NULL, NULL);
    r->hub = (struct hub_parts){.loop = &r->loop,
                                .home = &r->home,
                                .config = &r->settings,
                                .store = r->store,
                                .events = r->events,
                                .choices = r->choices,
                                .trust = r->trust};
    struct agent_opts o = {.hub = &r->hub,
                           .providers = r->providers,
                           .engine = r->engine,
                           .host = {.reach = reach,
                                    .known = known,
                                    .required = required,
                                    .loaded = loaded,
                                    .file = file,
                                    .enter = enter,
                                    .leave = leave,
                                    .save = save,
                                    .config = project_config,
                                    .environ = dress,
                                    .made = made,
                                    .changed = changed,
                                    .ended = ended,
                                    .vacated = vacated,
                                    .plugins = r,
                                    .arg = r}};
    r->agent = agent_open(&o, on_told, &ready);
    rig_wait(r, &ready);
}

static void on_closed(void *arg, int status, const struct err *e)
{
    (void)status; // a disk that failed is told once more here
    (void)e;
    *(bool *)arg = true;
}

void rig_stop(struct rig *r)
{
    bool stopped = false;
    agent_stop(r->agent, on_told, &stopped);
    rig_wait(r, &stopped);
}

void rig_close(struct rig *r)
{
    bool gone = false, closed = false;
    if (!r->agent->stopping) {
        rig_stop(r);
    }
    gen_close(r->engine, on_told, &gone);
    rig_wait(r, &gone);
    event_close(r->events);
    providers_close(r->providers);
    http_client_close(r->http);
    store_close(r->store, on_closed, &closed);
    rig_wait(r, &closed);
    agent_free(r->agent);
    choices_free(r->choices);
    trust_close(r->trust);
    config_free(r->config);
    home_fini(&r->home);
    buf_fini(&r->text);
    TEST_LOOP_END(&r->loop);
}

// ---- asking -------------------------------------------------------------------------------------

static void on_session(void *arg, struct session *s, const struct agent_no *no)
{
    struct rig *r = arg;
    CHECK((s == NULL) == (no != NULL));
    take_no(r, no);
    if (s != NULL) {
        snprintf(r->id, sizeof r->id, "%s", agent_session_id(s));
    }
    CHECK(!r->answered); // once
    r->answered = true;
}

static bool wait_answer(struct rig *r)
{
    rig_wait(r, &r->answered);
    r->answered = false;
    return r->problem == PROBLEM__COUNT;
}

static const struct json *parse(struct arena *a, const char *text)
{
    struct json *v = NULL;
    CHECK_INT(json_parse(&v, a, str_of(arena_strdup(a, str_of(text))), NULL, NULL), 0);
    return v;
}

bool rig_new(struct rig *r, const char *work, const char *scenario)
{
    struct arena a = {0};
    char *path = arena_printf(&a, "%s/scenario", work);
    if (scenario != NULL) {
        CHECK_INT(path_write_atomic(path, str_of(scenario), 0600, NULL), 0);
    }
    const char *params = arena_printf(&a,
                                      "{\"working_dir\":\"%s\",\"provider\":\"scripted\","
                                      "\"sandbox\":\"danger-full-access\","
                                      "\"permission\":\"%s\","
                                      "\"env\":{\"AFLOAT_SCENARIO\":\"%s\"}}",
                                      work, r->permission != NULL ? r->permission : "auto", path);
    agent_session_new(r->agent, parse(&a, params), NULL, on_session, r);
    arena_fini(&a);
    return wait_answer(r);
}

struct session *rig_get(struct rig *r, const char *id)
{
    agent_session_get(r->agent, str_of(id), on_session, r);
    return wait_answer(r) ? map_get(&r->agent->sessions, str_of(id)) : NULL;
}

bool rig_patch(struct rig *r, struct session *s, const char *params)
{
    struct arena a = {0};
    r->answered = false; // of what was asked before
    agent_session_patch(s, parse(&a, params), on_session, r);
    arena_fini(&a);
    return wait_answer(r);
}

bool rig_resume(struct rig *r, const char *id, const char *work)
{
    struct session *s = rig_get(r, id);
    char params[600];
    snprintf(params, sizeof params, "{\"env\":{\"AFLOAT_SCENARIO\":\"%s/scenario\"}}", work);
    return s != NULL && rig_patch(r, s, params);
}

static void on_page(void *arg, const struct agent_page *p, const struct agent_no *no)
{
    struct rig *r = arg;
    struct jw w;
    CHECK(!r->answered && (p == NULL) == (no != NULL));
    take_no(r, no);
    buf_clear(&r->text);
    jw_init(&w, &r->text);
    jw_obj(&w);
    jw_key(&w, "sessions");
    jw_arr(&w);
    for (size_t i = 0; p != NULL && i < p->n; i++) {
        agent_session_write(p->sessions[i], &w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    r->answered = true;
}

void rig_outcome(void *arg, const struct agent_outcome *o, const struct agent_no *no)
{
    struct rig *r = arg;
    struct jw w;
    CHECK(!r->answered && (o == NULL) == (no != NULL));
    take_no(r, no);
    buf_clear(&r->text);
    if (o != NULL) {
        jw_init(&w, &r->text);
        jw_obj(&w);
        agent_outcome_write(o, &w);
        jw_end_obj(&w);
    }
    r->answered = true;
}

bool rig_list(struct rig *r)
{
    agent_session_list(r->agent, &(struct agent_filter){0}, STR(""), 100, on_page, r);
    return wait_answer(r);
}

static void on_sent(void *arg, const struct agent_sent *sent, const struct agent_no *no)
{
    struct rig *r = arg;
    CHECK((sent == NULL) == (no != NULL));
    if (sent == NULL) {
        rig_outcome(r, NULL, no);
    } else {
        agent_wait(sent->s, sent->turn_id, rig_outcome, r);
    }
}

void rig_begin(struct rig *r, struct session *s, const char *text)
{
    r->answered = false;
    agent_send(s, &(struct agent_message){.text = str_of(text)}, on_sent, r);
}

bool rig_send(struct rig *r, const char *id, const char *text)
{
    struct session *s = rig_get(r, id);
    if (s == NULL) {
        return false;
    }
    rig_begin(r, s, text);
    return wait_answer(r);
}

static void on_decided(void *arg, const struct agent_no *no)
{
    (void)no;
    *(bool *)arg = true;
}

bool rig_allow(struct rig *r, const char *id)
{
    struct session *s = rig_get(r, id);
    struct agent_decision d = {.allow = true, .reason = STR("")};
    bool decided = false;
    if (s == NULL) {
        return false;
    }
    agent_wait(s, "t1", rig_outcome, r);
    agent_decide(s, STR("p1"), &d, on_decided, &decided);
    rig_wait(r, &decided);
    return wait_answer(r);
}

bool rig_end(struct rig *r, const char *id, bool purge)
{
    struct session *s = rig_get(r, id);
    if (s == NULL) {
        return false;
    }
    agent_session_end(s, purge, on_session, r);
    return wait_answer(r);
}
