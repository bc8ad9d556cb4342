// A connection that blocks: for migrations, moving a store, and commands.

#include <errno.h>
#include <string.h>

#include "pg/pg_int.h"

struct pg_link {
    const struct pq_api *api;
    struct pg_url url;
    PGconn *pq;
};

static void ignore_notice(void *arg, const PGresult *res)
{
    (void)arg;
    (void)res;
}

/// What to do about it, by what libpq or the server says.
static const char *remedy(struct str why)
{
    static const char *const remedies[][2] = {
        {"*password authentication failed*", "; is the password of [store] url right?"},
        {"*no password supplied*", "; [store] url or url_secret must hold it"},
        {"*certificate verify failed*",
         "; name your own authority in [store] url: sslrootcert=FILE"},
        {"*server does not support SSL*",
         "; enable it there, or add sslmode=disable to [store] url"},
        {"*database \"*\" does not exist*", "; make it with createdb"},
        {"*role \"*\" does not exist*", "; make it with createuser"},
    };
    for (size_t i = 0; i < ARRAY_LEN(remedies); i++) {
        if (str_glob(str_of(remedies[i][0]), why)) {
            return remedies[i][1];
        }
    }
    return "";
}

/// Does `text` have the reason of this line already? It is there twice when libpq tried with TLS and without, or two
/// addresses of one name.
static bool has_reason(struct str text, struct str line)
{
    static const char before[] = " failed: ";
    const char *at = line.n != 0 ? memmem(line.p, line.n, before, strlen(before)) : NULL;
    struct str reason = at != NULL ? str_from(line, (size_t)(at - line.p)) : line;
    return reason.n == 0 || (text.n != 0 && memmem(text.p, text.n, reason.p, reason.n) != NULL);
}

int pg__connect(PGconn **out, const struct pq_api *pq, const struct pg_url *url, struct err *e)
{
    *out = pq->connectdbParams((const char *const *)url->keys.p, (const char *const *)url->values.p,
                               0);
    if (*out != NULL && pq->status(*out) == CONNECTION_OK) {
        pq->setNoticeReceiver(*out, ignore_notice, NULL);
        return 0;
    }
    // libpq writes a line for each address, and below it, after a tab, the question whether the server runs. With two
    // addresses that is left out, so that the reason of the second still fits. One that has a remedy stands alone.
    struct str rest = str_trim(str_of(*out != NULL ? pq->errorMessage(*out) : "out of memory"));
    bool several = memmem(rest.p, rest.n, "\nconnection", strlen("\nconnection")) != NULL;
    struct buf why = {.max = SIZE_MAX};
    while (rest.n != 0) {
        struct str line = str_cut(&rest, '\n');
        bool question = line.n != 0 && line.p[0] == '\t';
        line = str_trim(line);
        if (remedy(line)[0] != '\0') {
            buf_clear(&why);
            rest = STR_NULL;
        }
        if (!has_reason(buf_str(&why), line) && !(several && question)) {
            buf_addf(&why, "%s" STR_FMT, why.n != 0 ? "; " : "", STR_ARG(line));
        }
    }
    int rc = err_set(e, -ECONNREFUSED, "cannot reach the store in PostgreSQL: %s%s", buf_z(&why),
                     remedy(buf_str(&why)));
    buf_fini(&why);
    pq->finish(*out);
    *out = NULL;
    return rc;
}

int pg_link_open(struct pg_link **out, const char *url, struct err *e)
{
    struct pg_link *l = xcalloc(1, sizeof *l);
    *out = NULL;
    int rc = pg_url_read(&l->url, url, e);
    if (rc == 0) {
        l->api = pq_api_get(e);
        rc = l->api != NULL ? pg__connect(&l->pq, l->api, &l->url, e) : ERR_UNSUPPORTED;
    }
    if (rc < 0) {
        pg_link_close(l);
        return rc;
    }
    *out = l;
    return 0;
}

void pg_link_close(struct pg_link *l)
{
    if (l == NULL) {
        return;
    }
    if (l->pq != NULL) {
        l->api->finish(l->pq);
    }
    pg_url_fini(&l->url);
    free(l);
}

static int take(struct pg_link *l, PGresult *res, struct pg_result **out, struct err *e)
{
    int rc = pg__fault(l->api, res, e);
    if (rc < 0 || out == NULL) {
        l->api->clear(res);
        return rc;
    }
    *out = xmalloc(sizeof **out);
    **out = (struct pg_result){.pq = l->api, .res = res};
    return 0;
}

int pg_link_run(struct pg_link *l, const char *sql, const struct pg_param *params, int n,
                struct pg_result **out, struct err *e)
{
    struct pg__request *r = pg__request_new(params, n);
    PGresult *res = l->api->execParams(l->pq, sql, n, NULL, r->values, r->lengths, r->formats, 0);
    free(r);
    return take(l, res, out, e);
}

int pg_link_script(struct pg_link *l, const char *sql, struct err *e)
{
    return take(l, l->api->exec(l->pq, sql), NULL, e);
}

void pg_result_free(struct pg_result *r)
{
    if (r != NULL) {
        r->pq->clear(r->res);
        free(r);
    }
}

const char *pg_link_shown(const struct pg_link *l)
{
    return l->url.shown;
}
