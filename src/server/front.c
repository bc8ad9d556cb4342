// GET /front/NAME/REVISION/FILE: what a page loads of a plugin's web side.
//
// The name is looked up among the serving plugins, the file among those of exactly that version: no part of the address
// becomes a path on disk. An address with the version's hash (`?v=`, as /front/plugins gives it) never means anything
// else, so a browser may keep it; one without, which a module of several files makes for its parts, is asked for again.

#include "server/server_int.h"

#define PREFIX "/front/"

static bool cut(struct str path, struct str *name, struct str *revision, struct str *file)
{
    if (!str_starts(path, PREFIX)) {
        return false;
    }
    struct str rest = str_from(path, sizeof PREFIX - 1);
    *name = str_cut(&rest, '/');
    *revision = str_cut(&rest, '/');
    *file = rest;
    return name->n != 0 && revision->n != 0 && file->n != 0;
}

bool front__is(struct str path)
{
    struct str name, revision, file;
    return cut(path, &name, &revision, &file);
}

void front__answer(struct conn *c, struct call *r)
{
    struct str name, revision, file;
    struct api_file f;
    bool found = cut(r->asked.path, &name, &revision, &file) &&
                 params__decode(&r->arena, name, false, &name) &&
                 params__decode(&r->arena, file, false, &file) &&
                 api_front_file(c->server->api, name, revision, file, &f);
    if (!found) {
        struct refusal no = {0};
        request__refuse(&no, PROBLEM_NOT_FOUND, "no plugin serves this file at this revision");
        http__refuse(c, &no, r->keep);
        return;
    }
    bool fixed =
        str_starts(r->asked.query, "v=") && str_eqz(str_from(r->asked.query, 2), f.version);
    struct reply reply = {.status = 200,
                          .type = f.type,
                          .body = f.bytes,
                          .caches = true,
                          .headers = fixed
                                         ? "Cache-Control: private, max-age=31536000, immutable\r\n"
                                           "Cross-Origin-Resource-Policy: same-origin\r\n"
                                         : "Cache-Control: private, no-cache\r\n"
                                           "Cross-Origin-Resource-Policy: same-origin\r\n"};
    call__reply(r, &reply);
}
