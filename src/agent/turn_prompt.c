// A step begins: the newest generation is pinned, and the request to the model made from it.
//
//     pin ──> tools of the generation ──> prompt sections (may be functions) ──> t->request
//
// Plugins that changed while the last step ran count from here on; within a step nothing changes.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"

// ---- the generation of a step -------------------------------------------------------------------

bool turn__pin(struct turn *t)
{
    struct gen *g = gen_current(t->s->agent->o.engine);
    struct gen_unit **units;
    struct arena a = {0};
    struct err e = {0};
    size_t n;
    if (g == NULL) {
        turn__fail(t, "STOPPING", "the hub is stopping");
        return false;
    }
    if (agent__session_units(t->s, g, &a, &units, &n, &e) < 0) {
        arena_fini(&a);
        turn__fail(t, "PLUGIN_UNAVAILABLE", "%s", e.msg);
        return false;
    }
    struct str *names = arena_calloc(&a, n + 1, sizeof *names);
    for (size_t i = 0; i < n; i++) {
        names[i] = str_of(units[i]->name);
    }
    hook_set_free(t->site.hooks);
    struct gen *old = t->site.gen;
    t->site.gen = gen_pin(g);
    t->site.hooks = gen_hooks_of(g, names, n);
    gen_unpin(old);
    arena_fini(&t->unit_arena);
    t->unit_arena = a;
    t->units = units;
    t->n_units = n;
    return true;
}

// ---- the prompt ---------------------------------------------------------------------------------

static void plugin_skills(const struct turn *t, struct skills *out)
{
    const struct agent_host *h = &t->s->agent->o.host;
    struct gen_walk skills = gen_walk_units(t->units, t->n_units, GEN_SKILL);
    for (const struct gen_item *it; (it = gen_walk_next(&skills)) != NULL;) {
        struct json *about;
        struct skill sk;
        struct str text = arena_str(&out->arena, str_of(gen_item_about(it)));
        if (json_parse(&about, &out->arena, text, NULL, NULL) < 0) {
            continue;
        }
        const char *path = arena_strdup(&out->arena, json_get_text(about, "path"));
        struct str bytes = h->file(h->plugins, gen_item_unit(it), path);
        struct str name = arena_str(&out->arena, str_of(gen_item_name(it)));
        if (bytes.p != NULL &&
            skill_parse(&sk, arena_str(&out->arena, bytes), name, &out->arena, NULL) == 0 &&
            skills_find(out, sk.name) == NULL) {
            vec_push(&out->list, sk);
        }
    }
}

/// In this order: the skills of its bot, of the user and the project, of plugins, and those that come with the program.
void turn__skills(const struct turn *t, struct skills *out)
{
    const struct skills *files[] = {&t->lore.skills, &t->files->skills};
    skills_init(out);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        vec_foreach (sk, &files[i]->list) {
            if (skills_find(out, sk->name) == NULL) {
                vec_push(&out->list, *sk);
            }
        }
    }
    plugin_skills(t, out);
    skills_add_shipped(out);
}

static struct str make_prompt(struct turn *t, const struct prompt_section *sections, size_t n)
{
    struct session *s = t->s;
    struct skills skills;
    struct buf out = {.max = SIZE_MAX};
    turn__skills(t, &skills);
    size_t told = t->lore.told ? t->lore.skills.list.n : 0; // the bot's come first
    struct prompt_parts parts = {.instructions = t->lore.instructions,
                                 .notes = t->lore.notes,
                                 .working_dir = s->working_dir,
                                 .sandbox = box_mode_name(s->sandbox),
                                 .network = s->network,
                                 .files = t->files->instructions.p,
                                 .n_files = t->files->instructions.n,
                                 .sections = sections,
                                 .n_sections = n,
                                 .skills = skills.list.p + told,
                                 .n_skills = skills.list.n - told};
    prompt_write(&out, &parts);
    struct str text = arena_str(&t->step_arena, buf_str(&out));
    buf_fini(&out);
    skills_fini(&skills);
    return text;
}

static void on_sections(const struct prompt_section *sections, size_t n, void *arg)
{
    static const struct json no_params = {.type = JSON_OBJ};
    struct turn *t = arg;
    struct arena *a = &t->step_arena;
    const struct json *said = talk_messages(t->s->talk), *memory = t->ctx.memory;
    struct json *request = make_obj(a, 5), *messages = make_arr(a, said->n + (size_t)memory->n);
    t->prompt = NULL;
    json_foreach_item (it, said) {
        make_push(messages, *it);
    }
    json_foreach_item (it, memory) { // what plugins put into ctx.memory follows
        make_push(messages, it->type == JSON_STR ? make_message(a, "system", *it) : *it);
    }
    t->remembered = memory->n;
    make_put(request, "model", make_strz(t->s->choice.model));
    make_put(request, "system", make_str(make_prompt(t, sections, n)));
    make_put(request, "messages", *messages);
    make_put(request, "tools", *toolbox_json(&t->site.tools, a));
    make_put(request, "params", no_params);
    t->request = request;
    turn__go(t, TURN_BEFORE_MODEL);
}

const char *turn__spent(struct turn *t)
{
    for (const struct turn *it = t; it != NULL; it = turn__parent(it)) {
        const struct session *s = it->s;
        int64_t steps = config_int(agent__session_config(s), "limits.max_steps");
        bool own = s->max_steps != 0 && s->max_steps < steps;
        unsigned made = it->n_steps + it->n_below;
        if (made >= (own ? s->max_steps : steps)) {
            return arena_printf(&t->arena, "the turn made %u model request%s (%s)", made,
                                made == 1 ? "" : "s", own ? "max_steps" : "[limits] max_steps");
        }
        if (s->max_cost > 0 && !(s->cost < s->max_cost)) { // an unknown cost (NAN) is too much
            return arena_printf(&t->arena, "the session has cost %.4f USD (max_cost is %.4f)",
                                s->cost, s->max_cost);
        }
    }
    return NULL;
}

void turn__count_step(struct turn *t)
{
    t->n_steps++;
    for (struct turn *above = t; (above = turn__parent(above)) != NULL;) {
        above->n_below++;
    }
}

void turn__prompt(struct turn *t)
{
    struct session *s = t->s;
    assert(t->prompt == NULL && t->call == NULL && t->n_open == 0 && s->talk != NULL);
    struct toolbox_rules rules = {.choices = s->agent->o.hub->choices,
                                  .disabled = s->disabled_tools.p,
                                  .n_disabled = s->disabled_tools.n,
                                  .only = s->some_tools ? &s->tools : NULL,
                                  .kit = agent__session_tools(s),
                                  .kit_data = s->agent->kit.arg};
    if (turn__fail_if_lost(t) || !turn__pin(t)) {
        return;
    }
    const char *spent = turn__spent(t);
    if (spent != NULL) {
        turn__fail(t, "LIMIT_REACHED", "%s", spent);
        return;
    }
    if (s->engine == NULL && turn__is_full(t)) {
        turn__go(t, TURN_COMPACT);
        return;
    }
    turn__retire_tools(t);
    arena_fini(&t->step_arena);
    t->reply = (struct turn_reply){0};
    turn__count_step(t);
    t->heard = talk_hear(s->talk, SIZE_MAX);
    toolbox_fill(&t->site.tools, t->site.gen, t->units, t->n_units, &rules, &t->step_arena);
    t->prompt = prompt_sections(t->units, t->n_units, &t->ctx, &t->step_arena, on_sections, t);
}
