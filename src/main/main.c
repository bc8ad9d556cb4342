// The program: everything is a command, the hub too.

#include "base/build_id.h"
#include "bind/shipped.h"
#include "chat/chat.h"
#include "cli/cli.h"
#include "demo/demo.h"
#include "host/host.h"
#include "host/script.h"
#include "host/validate.h"
#include "keep/keeper.h"
#include "main/daemon.h"
#include "tui/tui.h"

static int run_hub(const struct cli_hub_opts *o)
{
    return daemon_run(&(struct daemon_opts){
        .home = o->home,
        .listen = o->listen,
        .profile = o->profile,
        .repo = o->repo,
        .safe = o->safe,
        .version = AFLOAT_VERSION,
        .build = build_id(),
    });
}

static int run_tui(const struct cli_tui_opts *o, struct err *e)
{
    return tui_run(
        &(struct tui_opts){
            .home = o->home,
            .project = o->project,
            .version = AFLOAT_VERSION,
            .shipped = shipped_lua,
            .color = o->color,
            .safe = o->safe,
        },
        e);
}

int main(int argc, char **argv)
{
    static const struct cli_host host = {
        .run_hub = run_hub,
        .run_tui = run_tui,
        .chat = chat_main,
        .attach_session = chat_attach,
        .run = chat_run,
        .attach_run = chat_attach_run,
        .demo = demo_main,
        .run_host_lua = host_lua_main,
        .run_host_script = host_script_main,
        .run_keeper = keeper_main,
        .run_validate = host_validate_main,
        .build_id = build_id,
        .version = AFLOAT_VERSION,
    };
    return cli_main(argc, argv, &host);
}
