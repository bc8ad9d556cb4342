// The answers about trust: the same bytes over HTTP and from the commands with --json.

#include "base/time.h"
#include "trust/trust_int.h"

static void write_found(struct jw *w, const struct trust_item *it, const char *state)
{
    jw_obj(w);
    jw_kstrz(w, "kind", trust_kind_name(it->kind));
    jw_kstrz(w, "name", it->name);
    jw_kstrz(w, "path", it->path);
    jw_kstrz(w, "hash", it->error == NULL ? it->tree.hash : NULL);
    jw_karr(w, "files");
    vec_foreach (f, &it->tree.files) {
        jw_strz(w, f->path);
    }
    jw_end_arr(w);
    jw_kstrz(w, "state", state);
    if (it->error != NULL) {
        jw_kstrz(w, "error", it->error);
    }
    jw_end_obj(w);
}

void trust_write(const struct trust *t, struct buf *out)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_karr(&w, "places");
    vec_foreach (p, &t->book.places) {
        jw_obj(&w);
        jw_kstrz(&w, "path", (*p)->path);
        jw_kbool(&w, "follow", (*p)->follow);
        jw_karr(&w, "items");
        vec_foreach (at, &(*p)->items) {
            const struct trust__item *it = *at;
            char when[TIME_TEXT];
            jw_obj(&w);
            jw_kstrz(&w, "kind", trust_kind_name(it->kind));
            jw_kstrz(&w, "path", it->path);
            jw_kstrz(&w, "hash", *vec_last(&it->hashes));
            jw_kint(&w, "versions", (int64_t)it->hashes.n);
            jw_kstrz(&w, "trusted_at", time_format(it->trusted_at, when));
            jw_end_obj(&w);
        }
        jw_end_arr(&w);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_key(&w, "next");
    jw_null(&w);
    jw_end_obj(&w);
}

void trust_write_scan(const struct trust *t, const struct trust_place *p,
                      const struct trust_scan *s, bool follow, bool dry_run, struct buf *out)
{
    const struct trust__place *place = trust__find(&t->book, p->place);
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "path", p->root);
    jw_kstrz(&w, "place", p->place);
    jw_kbool(&w, "follow", follow || (place != NULL && place->follow));
    jw_kbool(&w, "dry_run", dry_run);
    jw_karr(&w, "items");
    vec_foreach (it, &s->items) {
        write_found(&w, it, trust_state(t, p, it));
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
}

void trust_write_removed(const struct trust_place *p, struct buf *out)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "path", p->root);
    jw_kstrz(&w, "place", p->place);
    jw_kbool(&w, "removed", true);
    jw_end_obj(&w);
}

const char *trust_state(const struct trust *t, const struct trust_place *p,
                        const struct trust_item *it)
{
    static const char *const sure[] = {[TRUST_YES] = "trusted", [TRUST_FOLLOWED] = "followed"};
    if (it->error != NULL) {
        return "unreadable";
    }
    enum trust_answer a = trust_ask(t, p, it->kind, it->path, it->tree.hash);
    if (a != TRUST_NO) {
        return sure[a];
    }
    return trust_last(t, p, it->kind, it->path) != NULL ? "changed" : "new";
}
