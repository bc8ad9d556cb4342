// Parameters, results, and what failures of the server mean for us.

#include "pg/value.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>

#include "pg/pg_int.h"

enum { OID_TEXT = 25 };

// ---- parameters -------------------------------------------------------------------------------

struct pg_param pg_int(struct pg_number *room, int64_t n)
{
    int len = snprintf(room->text, sizeof room->text, "%lld", (long long)n);
    return (struct pg_param){.value = {room->text, (size_t)len}};
}

static void add_u32(struct buf *out, size_t n)
{
    assert(n <= INT32_MAX);
    uint32_t be = htonl((uint32_t)n);
    buf_add(out, &be, sizeof be);
}

void pg_array_begin(struct buf *out, size_t n)
{
    buf_clear(out);
    add_u32(out, n != 0); // dimensions: an empty array has none
    add_u32(out, 0);      // no NULLs
    add_u32(out, OID_TEXT);
    if (n != 0) {
        add_u32(out, n);
        add_u32(out, 1); // the first index
    }
}

void pg_array_add(struct buf *out, struct str text)
{
    add_u32(out, text.n);
    buf_adds(out, text);
}

struct pg_param pg_array(const struct buf *out)
{
    return (struct pg_param){.value = buf_str(out), .binary = true};
}

// ---- results ----------------------------------------------------------------------------------

size_t pg_rows(const struct pg_result *r)
{
    return (size_t)r->pq->ntuples(r->res);
}

struct str pg_get(const struct pg_result *r, size_t row, int column)
{
    assert(row < pg_rows(r));
    int n = r->pq->getlength(r->res, (int)row, column);
    return (struct str){r->pq->getvalue(r->res, (int)row, column), (size_t)n};
}

bool pg_is_null(const struct pg_result *r, size_t row, int column)
{
    return r->pq->getisnull(r->res, (int)row, column) != 0;
}

int64_t pg_get_int(const struct pg_result *r, size_t row, int column)
{
    int64_t n;
    return str_to_i64(pg_get(r, row, column), &n) ? n : 0;
}

bool pg_get_bool(const struct pg_result *r, size_t row, int column)
{
    return str_eqz(pg_get(r, row, column), "t");
}

// ---- failures ---------------------------------------------------------------------------------

static const struct {
    const char *state; // a whole SQLSTATE, or the beginning of some
    int code;
    bool passing;
    const char *hint;
} meanings[] = {
    {"AF404", ERR_NOT_FOUND, false, ""},
    {"AF409", ERR_CONFLICT, false, ""},
    {"AF403", ERR_DENIED, false, ""},
    {"AF400", ERR_INVALID, false, ""},
    {"40001", -EAGAIN, true, ""},
    {"40P01", -EAGAIN, true, ""},
    {"57P0", -ECONNRESET, true, ""}, // it goes down, or comes up
    {"53100", -ENOSPC, false, ""},
    {"53", -EBUSY, false, ""},
    {"25006", -EROFS, false, "; is this a replica? [store] url must name the primary"},
    {"42501", ERR_DENIED, false, "; grant the role afloat_hub to the user of [store] url"},
};

static size_t meaning(const struct pq_api *pq, const PGresult *res)
{
    struct str state = str_of(pq->resultErrorField(res, PG_DIAG_SQLSTATE));
    size_t i = 0;
    while (i < ARRAY_LEN(meanings) && !str_starts(state, meanings[i].state)) {
        i++;
    }
    return i;
}

int pg__fault(const struct pq_api *pq, const PGresult *res, struct err *e)
{
    ExecStatusType status = pq->resultStatus(res);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY) {
        return 0;
    }
    size_t i = meaning(pq, res);
    const char *said = pq->resultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    struct str text = str_trim(str_of(said != NULL ? said : pq->resultErrorMessage(res)));
    bool ours = i < ARRAY_LEN(meanings) && str_starts(str_of(meanings[i].state), "AF");
    return err_set(e, i < ARRAY_LEN(meanings) ? meanings[i].code : -EIO, "%s" STR_FMT "%s",
                   ours ? "" : "PostgreSQL: ", STR_ARG(text),
                   i < ARRAY_LEN(meanings) ? meanings[i].hint : "");
}

bool pg__is_passing(const struct pq_api *pq, const PGresult *res)
{
    size_t i = meaning(pq, res);
    return i < ARRAY_LEN(meanings) && meanings[i].passing;
}
