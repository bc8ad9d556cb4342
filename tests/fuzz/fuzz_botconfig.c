// Any bytes as a bot's config.md. It is read, or refused with a place in the file; what is read can be
// changed, and the changed text is read again and says what was asked for. The first byte chooses the change.

#include <assert.h>

#include "bot/config.h"
#include "bot/config_edit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const changes[] = {
    "{}",
    "{\"model\": \"fuzz\"}",
    "{\"model\": null, \"plugins\": [\"a\", \"\\\"\"]}",
    "{\"worktree\": false}",
    "{\"worktree\": {\"setup\": [\"fuzz\"], \"link\": null}, \"model\": \"fuzz\"}",
};

static int parse(struct bot_config *c, struct str text)
{
    struct config_diags d;
    struct err e = {0};
    bot_config_init(c);
    config_diags_init(&d);
    int rc = bot_config_parse(c, text, "config.md", &d, &e);
    assert(rc == 0 || (rc == ERR_PARSE && d.broken && strncmp(e.msg, "config.md:", 10) == 0));
    assert(c->instructions[0] != '\0' && c->engine != NULL);
    for (size_t i = 0; i < d.n; i++) {
        assert(d.p[i].line >= 1 && d.p[i].col >= 1);
    }
    config_diags_fini(&d);
    return rc;
}

static void check_change(struct str text, unsigned which)
{
    struct arena a = {0};
    struct json *keys;
    struct buf out;
    struct bot_config c;
    buf_init(&out, SIZE_MAX);
    int rc = json_parse(&keys, &a, str_of(changes[which]), NULL, NULL);
    assert(rc == 0);
    rc = bot_config_edit(&out, text, keys, which == 0 ? STR("other") : STR_NULL, NULL);
    if (rc == 0) {
        rc = parse(&c, buf_str(&out));
        assert(rc == 0); // a good text and good keys
        assert(which != 0 || strcmp(c.instructions, "other") == 0);
        assert((which != 1 && which != 4) || strcmp(c.model, "fuzz") == 0);
        assert(which != 3 || !c.worktree);
        assert(which != 4 || strcmp(c.setup.p[0], "fuzz") == 0);
        bot_config_fini(&c);
    }
    buf_fini(&out);
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bot_config c;
    if (size == 0 || size > BOT_CONFIG_BYTES) {
        return 0;
    }
    struct str text = {(const char *)data + 1, size - 1};
    if (parse(&c, text) == 0) {
        check_change(text, data[0] % (unsigned)ARRAY_LEN(changes));
    }
    bot_config_fini(&c);
    return 0;
}
