#pragma once

// The host protocol: what the hub and a process that runs a plugin say to each other, one JSON object
// a line over a socket pair. The member "type" says which message it is; members that the other
// side does not know are ignored.
//
//     hub to host                                       host to hub
//     load      path name options api state source?     register  kind ...
//     hook      id point handler? ctx args deadline_ms  loaded    metadata
//     tool      id name ctx input deadline_ms           failed    message path? line? code?
//     route     id name method path params query        log       level text
//               headers body deadline_ms                call      id op params
//     command   id name args ctx deadline_ms            state     key value
//     prompt    id name ctx deadline_ms                 progress  id text
//     provider  id name ctx request deadline_ms         emit      id event   (of a provider's stream)
//     mcp_prompt    id name ctx arguments deadline_ms
//     mcp_resource  id name ctx uri params deadline_ms
//     event     name data                               result    id value state? memory?
//     cancel    id                                      error     id? message path? line? code?
//     watch     ref path kind                           unregister  ref
//     shutdown  id reason
//     result    id value        (answers to call)
//     error     id message
//
// The `load` of a plugin also has `files` (the text of each file of its language), `server` (which of them is
// loaded) and `single`. `state` and `memory` of a result are what a handler changed in its ctx; `dropped {name, path?, line?}`
// says that it changed its last argument and returned nothing. An event whose
// name is a hook point (on_model_delta) is a hook whose result the hub does not wait for; its data is {handler, ctx, args}.
//
// A `register` may carry `ref`, a number that the host chooses and no other registration has; `unregister` takes that
// registration back, before `loaded` or later. What watches a directory gets a `watch` for each file there that changed (`kind`: created, changed,
// deleted). Calls of a turn that still has the registration come after `unregister`, too.
//
// Every id that was asked is answered once, also after cancel. An `error` without an id concerns no
// call: code that ran by itself failed, or a message was not understood.

enum {
    HOST_FD = 3,                      // the socket, in the host
    HOST_LINE_MAX = 16 * 1024 * 1024, // bytes of a line; a longer one ends the host
};
