#pragma once

#include "base/json.h"

// `afloat host lua --validate`: find out what a plugin would register, without any effect.

/// Lock this process in (nothing at all stays in reach), read one request from stdin, run the plugin in
/// it against a recorder of the user API, write one answer to stdout. Returns the exit code.
///
///     request  {name, path, single, server, files: {rel: text}, options, test, points: [name]}
///     answer   {ok: true, value: {name, hooks, metadata, tools, routes, commands, contributions, tests?}}
///              {ok: false, code, message, path?, line, traceback}
int host_validate_main(void);

/// Answer one request with one JSON object on stdout, whose members `answer_it` writes, and end the process. Returns its
/// exit code where stdout cannot be kept apart from what the plugin prints.
int host_answer_request(void (*answer_it)(struct jw *w));
enum { HOST_REQUEST_MAX = 64 << 20 }; // a plugin's files as JSON
/// Add the request on stdin to `in`. -1: it cannot be read, or `in` cannot hold it.
int host_read_request(struct buf *in) MUST_CHECK;
