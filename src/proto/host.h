#pragma once

// The host protocol: what the hub and a process that runs a plugin say to each other, one JSON object
// a line over a socket pair. The member "type" says which message it is; members that the other
// side does not know are ignored.
//
//     hub to host                                       host to hub
//     load      path name options api state source?     register  kind ...   (before loaded only)
//     hook      id point handler? ctx args deadline_ms  loaded    metadata
//     tool      id name ctx input deadline_ms           failed    message path? line? code?
//     event     name data                               log       level text
//     cancel    id                                      call      id op params
//     shutdown  id reason                               state     key value
//     result    id value        (answers to call)       result    id value
//     error     id message                              error     id? message path? line? code?
//
// Every id that was asked is answered once, also after cancel. An `error` without an id concerns no
// call: code that ran by itself failed, or a message was not understood.

enum {
    HOST_FD = 3,                      // the socket, in the host
    HOST_LINE_MAX = 16 * 1024 * 1024, // bytes of a line; a longer one ends the host
};
