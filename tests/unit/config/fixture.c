// See fixture.h.

#include "unit/config/fixture.h"

#include <sys/stat.h>

static void make_dir(const char *path)
{
    CHECK(mkdir(path, 0700) == 0);
}

void fixture_init(struct fixture *f)
{
    const char *dir = test_dir();
    char afloat[360];

    *f = (struct fixture){0};
    config_diags_init(&f->diags);
    snprintf(f->system, sizeof f->system, "%s/system.toml", dir);
    snprintf(f->user_file, sizeof f->user_file, "%s/config.toml", dir);
    snprintf(f->project, sizeof f->project, "%s/project", dir);
    snprintf(afloat, sizeof afloat, "%s/.afloat", f->project);
    snprintf(f->project_file, sizeof f->project_file, "%s/.afloat/config.toml", f->project);
    make_dir(f->project);
    make_dir(afloat);
    f->home.config = f->user_file;
}

void fixture_fini(struct fixture *f)
{
    config_free(f->config);
    config_diags_fini(&f->diags);
}

void fixture_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0 && fclose(file) == 0);
}

int fixture_load(struct fixture *f, const char *const *env, const char *const *flags)
{
    struct config_sources src = {.home = &f->home,
                                 .system_path = f->system,
                                 .project_dir = f->project,
                                 .env = env,
                                 .flags = flags};
    config_free(f->config);
    config_diags_fini(&f->diags);
    return config_load(&f->config, &src, &f->diags, &f->err);
}

void fixture_user(struct fixture *f, const char *text)
{
    fixture_write(f->user_file, text);
    CHECK_INT(fixture_load(f, NULL, NULL), 0);
}

const char *fixture_diag(const struct fixture *f, size_t i)
{
    static char text[1200];
    if (i >= f->diags.n) {
        return "none";
    }
    const struct config_diag *d = &f->diags.p[i];
    snprintf(text, sizeof text, "%s %u:%u %s", d->severity == CONFIG_ERROR ? "error" : "warning",
             (unsigned)d->line, (unsigned)d->col, d->message);
    return text;
}

const char *fixture_value(const struct fixture *f, const char *key)
{
    static char text[4096];
    const struct config_entry *entry = config_find(f->config, key);
    if (entry == NULL) {
        return "absent";
    }
    struct buf b;
    buf_init(&b, sizeof text - 1);
    json_write(&b, entry->value, 0);
    snprintf(text, sizeof text, "%s", buf_z(&b));
    buf_fini(&b);
    return text;
}
