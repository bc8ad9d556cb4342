#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "front/front.h"
#include "loop/timer.h"

// What the files of front/ share. The compiler is esbuild, run as a service: it speaks packets over its standard
// input and output, asks for each file that it wants, and we answer from the tree.
//
//     files.c     which file of a tree an import means
//     packet.c    the packets: bytes <-> values
//     build.c     one build: its request, the compiler's questions, its result
//     compiler.c  the process: found, started, ended when idle

// ---- files.c ----------------------------------------------------------------------------------

/// How the compiler is to read a file ("tsx", "dataurl"); NULL: not at all.
const char *front__loader(struct str path);
/// What `path`, imported by the file `importer` (empty: it is the entry), means.
enum front_found { FOUND_FILE, FOUND_EXTERNAL, FOUND_NOT };
/// FILE: `*out` is the path in the tree. NOT: a text in `*out` says why. Both in `a`.
enum front_found front__resolve(const struct tree *t, struct str importer, struct str path,
                                struct arena *a, const char **out);

// ---- packet.c ---------------------------------------------------------------------------------

struct packet {
    uint32_t id;
    bool is_request;
    struct json *value; // byte arrays are strings
};
/// Append a packet. Strings under the key "contents" are sent as byte arrays.
void packet__write(struct buf *out, uint32_t id, bool is_request, const struct json *value);
/// Read the body of a packet (without its length). False: it is malformed. Strings point into `body`.
bool packet__read(struct packet *out, struct arena *a, struct str body);

// ---- build.c ----------------------------------------------------------------------------------

struct build {
    uint32_t id;
    const struct tree *tree;
    const char *entry;
    front_built *cb;
    void *arg;
    struct timer deadline;
    struct front *front;
    bool sent;  // to the process that runs
    bool again; // another process ended with it
};
/// Append the request.
void build__request(const struct build *b, struct buf *out);
/// Append the answer to a question of the compiler's.
void build__answer(const struct build *b, const struct packet *q, struct buf *out);
/// The compiler is done with it: call back.
void build__result(struct build *b, const struct json *result);
/// It cannot be built: call back.
void build__fail(struct build *b, bool missing, const char *message, const char *hint);
