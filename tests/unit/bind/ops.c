#include "unit/bind/ops.h"

struct fake fake;

void fake_answer(void *arg)
{
    (void)arg;
    struct op_call *c = fake.call;
    fake.call = NULL;
    if (fake.why != NULL) {
        op_fail(c, fake.problem, NULL, "%s", fake.why);
    } else {
        op_answer(c, 200, str_of(fake.json));
    }
}

static void fake_run(struct api *api, struct op_call *c)
{
    CHECK(api == (struct api *)&fake && fake.call == NULL);
    buf_addf(&fake.heard, "%s ", ops[c->id].name);
    json_write(&fake.heard, c->params, 0);
    buf_addz(&fake.heard, "\n");
    fake.call = c;
    if (!fake.slow) {
        fake_answer(NULL);
    }
}

void fake_open(const char *json)
{
    memset(&fake, 0, sizeof fake);
    fake.json = json;
    buf_init(&fake.heard, SIZE_MAX);
    rig_open();
    bind_set_ops(rig.bind, fake_run, (struct api *)&fake);
}

void fake_close(void)
{
    rig_close();
    buf_fini(&fake.heard);
}

void fake_fails(enum problem p, const char *why)
{
    fake.problem = p;
    fake.why = why;
}

void fake_ask(const char *code)
{
    fake.slow = true;
    rig_load("a", code);
    while (fake.call == NULL) {
        loop_run_once(&l, true);
    }
}
