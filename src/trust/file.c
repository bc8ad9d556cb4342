// trust.json as text.
//
//     { "version": 1,
//       "places": [ { "path": "/home/me/api", "follow": false,
//         "items": [ { "kind": "plugin", "path": ".afloat/plugins/logger.lua",
//                      "trusted_at": "2026-11-15T05:01:12.345Z", "hashes": [ "5f0c...", "a41b..." ] } ] } ] }
//
// Reading is strict: anything that is not exactly this is damage, and a damaged file trusts nothing: a reader
// that guesses could be tricked into trusting something. Later versions of the file are recognised by their
// number and left alone.

#include <assert.h>

#include "base/time.h"
#include "trust/trust_int.h"

enum { VERSION = 1 };

static bool is_hash(struct str s)
{
    bool ok = s.n == SHA256_HEX - 1;
    for (size_t i = 0; ok && i < s.n; i++) {
        ok = (s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f');
    }
    return ok;
}

/// A C string in the book's arena; NULL for anything but a text without U+0000.
static const char *text_of(struct trust__book *b, const struct json *v)
{
    struct str s = json_str(v, NULL);
    return s.n != 0 && s.n < 4096 && memchr(s.p, '\0', s.n) == NULL ? arena_strdup(&b->arena, s)
                                                                    : NULL;
}

static bool kind_of(struct str name, enum trust_kind *out)
{
    for (int k = 0; k < TRUST_KIND_COUNT; k++) {
        if (str_eqz(name, trust_kind_name((enum trust_kind)k))) {
            *out = (enum trust_kind)k;
            return true;
        }
    }
    return false;
}

/// A path below the root that is written as we write it.
static bool is_item_path(const char *path)
{
    struct str rest = str_of(path);
    while (rest.n != 0) {
        struct str part = str_cut(&rest, '/');
        if (part.n == 0 || str_eqz(part, ".") || str_eqz(part, "..")) {
            return false;
        }
    }
    return true;
}

static bool decode_item(struct trust__book *b, struct trust__place *p, const struct json *v)
{
    enum trust_kind kind;
    int64_t at;
    const char *path = text_of(b, json_get(v, "path"));
    if (path == NULL || !is_item_path(path) ||
        !kind_of(json_str(json_get(v, "kind"), NULL), &kind) ||
        !time_parse(json_str(json_get(v, "trusted_at"), NULL), &at) ||
        trust__find_item(p, kind, path) != NULL) {
        return false;
    }
    struct trust__item *it = trust__item(b, p, kind, path);
    it->trusted_at = at;
    json_foreach_item (h, json_get(v, "hashes")) {
        if (h->type != JSON_STR || !is_hash(h->s)) {
            return false;
        }
        trust__add_hash(b, it, arena_strdup(&b->arena, h->s));
    }
    return it->hashes.n != 0;
}

static bool decode_place(struct trust__book *b, const struct json *v)
{
    const char *path = text_of(b, json_get(v, "path"));
    const struct json *follow = json_get(v, "follow"), *items = json_get(v, "items");
    if (path == NULL || path[0] != '/' || trust__find(b, path) != NULL || follow == NULL ||
        follow->type != JSON_BOOL || items == NULL || items->type != JSON_ARR) {
        return false;
    }
    struct trust__place *p = trust__place(b, path);
    p->follow = follow->b;
    json_foreach_item (it, items) {
        if (!decode_item(b, p, it)) {
            return false;
        }
    }
    return true;
}

void trust__encode(const struct trust__book *b, struct buf *out)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kint(&w, "version", VERSION);
    jw_karr(&w, "places");
    vec_foreach (p, &b->places) {
        jw_obj(&w);
        jw_kstrz(&w, "path", (*p)->path);
        jw_kbool(&w, "follow", (*p)->follow);
        jw_karr(&w, "items");
        vec_foreach (it, &(*p)->items) {
            char at[TIME_TEXT];
            jw_obj(&w);
            jw_kstrz(&w, "kind", trust_kind_name((*it)->kind));
            jw_kstrz(&w, "path", (*it)->path);
            jw_kstrz(&w, "trusted_at", time_format((*it)->trusted_at, at));
            jw_karr(&w, "hashes");
            vec_foreach (h, &(*it)->hashes) {
                jw_strz(&w, *h);
            }
            jw_end_arr(&w);
            jw_end_obj(&w);
        }
        jw_end_arr(&w);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    buf_addc(out, '\n');
}

int trust__decode(struct trust__book *b, struct str text, struct err *e)
{
    struct arena a = {0};
    struct json *root = NULL;
    struct err why;
    assert(b->places.n == 0);
    int rc = json_parse(&root, &a, text, NULL, &why);
    rc = rc < 0 ? err_set(e, ERR_CORRUPT, "%s", why.msg) : 0;
    const struct json *version = json_get(root, "version"), *places = json_get(root, "places");
    if (rc == 0 && (version == NULL || version->type != JSON_INT || version->i < 1)) {
        rc = err_set(e, ERR_CORRUPT, "it has no version");
    } else if (rc == 0 && version->i > VERSION) {
        rc = err_set(e, ERR_UNSUPPORTED, "it has version %lld and was written by a newer afloat",
                     (long long)version->i);
    } else if (rc == 0 && (places == NULL || places->type != JSON_ARR)) {
        rc = err_set(e, ERR_CORRUPT, "it has no list of places");
    }
    for (uint32_t i = 0; rc == 0 && i < places->n; i++) {
        if (!decode_place(b, &places->items[i])) {
            rc = err_set(e, ERR_CORRUPT, "place %u is malformed", i + 1);
        }
    }
    if (rc < 0) {
        trust__book_fini(b);
    }
    arena_fini(&a);
    return rc;
}
