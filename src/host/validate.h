#pragma once

// `afloat host lua --validate`: find out what a plugin would register, without any effect.

/// Lock this process in (nothing at all stays in reach), read one request from stdin, run the plugin in
/// it against a recorder of the user API, write one answer to stdout. Returns the exit code.
///
///     request  {name, path, single, server, files: {rel: text}, options, test, points: [name]}
///     answer   {ok: true, value: {name, hooks, metadata, tools, routes, commands, contributions, tests?}}
///              {ok: false, code, message, path?, line, traceback}
int host_validate_main(void);
