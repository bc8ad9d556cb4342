// The rc files of a session, made of the texts in runtime/shell and the environment's functions.
//
//     bash   rc.bash             --noprofile --rcfile rc.bash -i
//     zsh    zsh/.zshenv .zshrc  ZDOTDIR=zsh, put back by the first of the two
//     fish   init.fish           --init-command: runs after config.fish
//
// Nothing in these texts depends on the project: what does, a path say, comes by the environment or by
// the files of offers.h, so that there is nothing to quote.

#include "shell/rc.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/path.h"
#include "env/render.h"
#include "shell/rc_int.h"

/// The marker, the environment's functions and our own, as one file.
static int write_init(const char *dir, const char *name, enum env_dialect d, const char *script,
                      bool marker, struct err *e)
{
    struct buf text = {.max = SIZE_MAX};
    buf_addz(&text, d == ENV_FISH ? "set -g __afloat_marker " : "__afloat_marker=");
    buf_addz(&text, marker ? "1\n" : "''\n");
    env_render_prelude(d, &text);
    buf_addz(&text, shipped_get(shipped_shell, script)->text);
    int rc = env_render_write(dir, name, buf_str(&text), e);
    buf_fini(&text);
    return rc;
}

static int prepare_zsh(struct rc_start *out, struct arena *a, const char *dir, const char *program,
                       bool marker, const char *const *outer, struct err *e)
{
    struct buf text = {.max = SIZE_MAX};
    const char *zdotdir = arena_printf(a, "%s/zsh", dir);
    const char *before = str_env(outer, "ZDOTDIR");
    const char *const argv[] = {program, "-i"};
    const char *const env[] = {
        arena_printf(a, "ZDOTDIR=%s", zdotdir),
        arena_printf(a, "__AFLOAT_ZDOTDIR=%s", before != NULL ? before : "")};
    out->argv = arena_list(a, argv, ARRAY_LEN(argv));
    out->env = arena_list(a, env, before != NULL ? 2 : 1);
    if (mkdir(zdotdir, 0700) != 0 && errno != EEXIST) {
        return err_sys(e, "cannot make '%s'", zdotdir);
    }
    buf_addz(&text, shipped_get(shipped_shell, "zshenv.zsh")->text);
    int rc = env_render_write(zdotdir, ".zshenv", buf_str(&text), e);
    buf_fini(&text);
    return rc < 0 ? rc : write_init(zdotdir, ".zshrc", ENV_ZSH, "init.zsh", marker, e);
}

int rc_prepare(struct rc_start *out, struct arena *a, const char *dir, const char *program,
               enum env_dialect d, bool marker, const char *const *outer, struct err *e)
{
    assert(d != ENV_SH); // it has no rc files of ours
    if (d == ENV_ZSH) {
        return prepare_zsh(out, a, dir, program, marker, outer, e);
    }
    bool fish = d == ENV_FISH;
    const char *name = fish ? "init.fish" : "rc.bash", *file = arena_printf(a, "%s/%s", dir, name);
    struct buf source = {.max = SIZE_MAX};
    buf_addz(&source, "source ");
    env_quote(&source, ENV_FISH, file);
    const char *const for_bash[] = {program, "--noprofile", "--rcfile", file, "-i"};
    const char *const for_fish[] = {program, "-i", "--init-command",
                                    arena_strdup(a, buf_str(&source))};
    buf_fini(&source);
    out->argv = fish ? arena_list(a, for_fish, ARRAY_LEN(for_fish))
                     : arena_list(a, for_bash, ARRAY_LEN(for_bash));
    out->env = arena_list(a, NULL, 0);
    return write_init(dir, name, fish ? ENV_FISH : ENV_BASH, fish ? "init.fish" : "init.bash",
                      marker, e);
}
