#pragma once

// Commands with a dialogue: `afloat chat`, `afloat run`, and watching a session or a run. They are above cli/, which
// reaches them through cli_host.

struct cli;

/// `afloat chat`; the exit code.
int chat_main(struct cli *c);
/// `afloat sessions attach ID`; the exit code.
int chat_attach(struct cli *c);
/// `afloat run BOT`; the exit code.
int chat_run(struct cli *c);
/// `afloat runs attach RUN`; the exit code.
int chat_attach_run(struct cli *c);
