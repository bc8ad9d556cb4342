// Settings of `[shell]`.

#include "cli/shell_config.h"

#include <unistd.h>

#include "config/config.h"
#include "trust/settings.h"

/// A file with an error counts as if it were not there.
static void tell_broken(struct cli *c, const struct config_diags *d)
{
    for (size_t i = 0; i < d->n; i++) {
        if (d->p[i].severity == CONFIG_ERROR) {
            out_note(&c->out, "'%s' is broken; 'afloat config show' names the error", d->p[i].path);
            return;
        }
    }
}

struct shell_config shell_config_read(struct cli *c, const char *dir)
{
    struct trust_settings project;
    trust_settings_read(&project, c->home.dir, dir);
    struct config_sources src = {.home = &c->home,
                                 .project_dir = project.trusted ? project.root : NULL,
                                 .project_text = project.text,
                                 .env = (const char *const *)environ};
    struct shell_config out = {.marker = true}; // 0: the coordinator's own limit
    struct config *config = NULL;
    struct config_diags diags;
    struct err e;
    config_diags_init(&diags);
    if (config_load(&config, &src, &diags, &e) == 0) {
        out.marker = config_bool(config, "shell.marker");
        status_mode_of(config_str(config, "shell.status"), &out.status);
        out.build_timeout_ms = (uint64_t)config_int(config, "shell.build_timeout_s") * 1000;
        tell_broken(c, &diags);
    } else {
        out_note(&c->out, "%s", e.msg);
    }
    config_free(config);
    config_diags_fini(&diags);
    trust_settings_fini(&project);
    return out;
}
