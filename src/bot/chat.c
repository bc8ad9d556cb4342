// Conversations with a bot, and what its sessions are told.
//
// A session of POST /session with `bot` is in the bot's history under a number of its own, like an iteration of a run,
// but the user begins each turn. Its instructions, skills and memory are read anew at each turn (bots__learn). An
// iteration gets all of that in its prompt, which is a message; bots__learn() only adds the skills, for the tool `skill`.

#include "base/path.h"
#include "bot/ask.h"
#include "bot/history_number.h"
#include "bot/prompt.h"
#include "bot/run_int.h"
#include "config/home.h"

// ---- learn --------------------------------------------------------------------------------------

/// What one turn is told, while it is read.
struct learning {
    struct bots *b;
    struct agent_lore *out;
    struct arena arena;
    const char *bot, *project, *dir, *space; // in the arena
    bool in_run;
    struct catalog catalog;
    struct catalog_bot *found;
    struct skillset skills;
    struct memory memory;
    int rc;
    struct err e;
    loop_fn *done;
    void *arg;
};

static void learning_free(struct learning *l)
{
    struct bots *b = l->b;
    catalog_fini(&l->catalog);
    skillset_fini(&l->skills);
    memory_fini(&l->memory);
    arena_fini(&l->arena);
    free(l);
    bots__release(b);
}

static void write_instructions(struct learning *l)
{
    struct buf text = {.max = BOT_PROMPT_BYTES};
    struct bot_prompt p = {.instructions = l->found->config.instructions,
                           .project = l->project,
                           .skills = l->skills.list.p,
                           .n_skills = l->skills.list.n,
                           .skills_dir =
                               arena_printf(&l->arena, "%s/bots/%s/skills", l->b->home, l->bot),
                           .memory = l->memory.list.p,
                           .n_memory = l->memory.list.n};
    bot_prompt_write_chat(&text, &p);
    l->out->instructions = arena_str(&l->out->skills.arena, buf_str(&text));
    buf_fini(&text);
}

static void on_skills(void *arg)
{
    struct learning *l = arg;
    struct arena *a = &l->out->skills.arena;
    skillset_judge(&l->skills, l->b->o.hub->trust);
    vec_foreach (it, &l->skills.list) {
        struct skill s = {.name = arena_str(a, it->skill->name),
                          .description = arena_str(a, it->skill->description),
                          .body = arena_str(a, it->skill->body)};
        vec_push(&l->out->skills.list, s);
    }
    l->out->told = true;
    if (!l->in_run) {
        write_instructions(l);
    }
    l->done(l->arg);
    learning_free(l);
}

static void read_skills(void *arg) // on the lane
{
    struct learning *l = arg;
    skillset_read(&l->skills, l->b->shelf, l->b->home, l->found, l->dir);
}

static void on_read(void *arg)
{
    struct learning *l = arg;
    catalog_judge(&l->catalog, l->b->o.hub->trust);
    if (l->rc < 0 || catalog_find(&l->catalog, str_of(l->bot), &l->found, &l->e) < 0) {
        l->done(l->arg); // it is gone: the conversation continues without it
        learning_free(l);
        return;
    }
    work_submit(l->b->lane, 0, read_skills, on_skills, l);
}

static void read_bot(void *arg) // on the lane
{
    struct learning *l = arg;
    l->rc = catalog_read(&l->catalog, l->b->home, l->dir, l->bot, &l->e);
    if (l->rc == 0 && !l->in_run) {
        l->rc = memory_load(&l->memory, l->b->shelf, l->space, &l->e);
    }
}

void bots__learn(void *arg, struct session *s, struct agent_lore *out, loop_fn *done,
                 void *done_arg)
{
    struct bots *b = arg;
    const struct agent_role *role = agent_session_role(s);
    struct learning *l = xcalloc(1, sizeof *l);
    *l = (struct learning){
        .b = b, .out = out, .in_run = role->autonomous, .done = done, .arg = done_arg};
    struct str space = path_dir(role->dir);
    l->bot = arena_strdup(&l->arena, role->bot);
    l->project = arena_strdup(&l->arena, role->project);
    l->dir = arena_strdup(&l->arena, str_of(agent_session_dir(s)));
    l->space = arena_printf(&l->arena, "%s/" STR_FMT, b->home, STR_ARG(space));
    bots__hold(b);
    work_submit(b->lane, 0, read_bot, on_read, l);
}

// ---- a conversation begins ----------------------------------------------------------------------

struct opening {
    struct ask *a;
    agent_session_cb *cb;
    void *arg;
    uint64_t number;
    struct agent_role place; // its run, if it has one; borrowed from that
};

static void on_refused(void *arg, struct str json, const char *name, const struct agent_no *no)
{
    struct opening *o = arg;
    (void)json;
    (void)name;
    o->cb(o->arg, NULL, no);
    free(o);
}

static void on_made(void *arg, struct session *s, const struct agent_no *no)
{
    struct opening *o = arg;
    o->cb(o->arg, s, no);
    ask__drop(o->a);
    free(o);
}

/// What config.md says and the request does not.
static void add_settings(struct ask *a)
{
    const struct json *said = run__session_params(&a->arena, &a->bot->config, NULL, NULL);
    json_foreach_member (m, said) {
        if (json_get_str(a->params, m->key) == NULL) {
            a->params = json_with(&a->arena, a->params, m->key, &m->value);
        }
    }
}

static void open_session(struct ask *a)
{
    struct opening *o = a->arg;
    char *dir = xasprintf("%s/history", a->ws.rel);
    struct agent_role role = o->place;
    role.bot = str_of(a->name);
    role.project = str_of(a->ws.slug);
    role.dir = str_of(dir);
    role.number = (int64_t)o->number;
    agent_session_new(a->b->o.agent, a->params, &role, on_made, o);
    free(dir);
}

static void take_number(struct ask *a) // on the lane
{
    struct opening *o = a->arg;
    a->rc = history_number_take(a->b->shelf, a->ws.dir, &o->number, &a->e);
}

static void on_checked(void *arg, struct session *s, const struct agent_no *no)
{
    struct ask *a = arg;
    (void)s;
    if (no != NULL) {
        ask__refuse(a, no);
    } else {
        ask__work(a, take_number, open_session);
    }
}

/// A number that was taken is used up, so what can be refused is refused before.
static void located(struct ask *a)
{
    if (a->bot->status < 0) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "%s", a->bot->err.msg);
        return;
    }
    add_settings(a);
    agent_session_check(a->b->o.agent, a->params, &(struct agent_role){.bot = str_of(a->name)},
                        on_checked, a);
}

void bots__open_chat(struct bots *b, const struct json *params, const struct agent_role *place,
                     agent_session_cb *cb, void *arg)
{
    if (json_str(json_get(params, "bot"), "").n == 0) {
        agent_session_new(b->o.agent, params, place, cb, arg);
        return;
    }
    struct opening *o = xcalloc(1, sizeof *o);
    *o = (struct opening){.cb = cb, .arg = arg};
    if (place != NULL) {
        o->place = *place;
    }
    o->a = ask__new(b, params, on_refused, o);
    if (b->stopping) {
        ask__no(o->a, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return;
    }
    if (ask__str(o->a, "working_dir").p == NULL) {
        ask__set(o->a, "working_dir", STR("/"));
    }
    ask__locate(o->a, WHERE_SPACE | WHERE_MAKE, located);
}

void bots_chat(struct bots *b, const struct json *params, agent_session_cb *cb, void *arg)
{
    if (json_bool(json_get(params, "worktree"), false)) {
        run__start_chat(b, params, cb, arg);
    } else {
        bots__open_chat(b, params, NULL, cb, arg);
    }
}
