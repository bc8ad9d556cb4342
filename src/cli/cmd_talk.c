// Commands whose dialogue is above this folder, see cli.h.

#include "cli/cli_int.h"

int cmd_chat(struct cli *c)
{
    return c->host->chat(c);
}

int cmd_session_attach(struct cli *c)
{
    return c->host->attach_session(c);
}

int cmd_run(struct cli *c)
{
    return c->host->run(c);
}

int cmd_run_attach(struct cli *c)
{
    return c->host->attach_run(c);
}

int cmd_demo(struct cli *c)
{
    return c->host->demo(c);
}
