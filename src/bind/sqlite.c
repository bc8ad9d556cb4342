// sqlite: read an SQLite file from Lua.
//
//     sqlite.query(path, sql, args?, callback?) ──> a thread: open read-only, run, close ──> {columns, rows, more}
//
// Each query opens the file anew, so no connection outlives the code that asked, and a file that was replaced is
// seen. Only one statement, and only one that reads: the file is opened read-only and nothing can be attached. Time, rows
// and bytes are bounded; what is left out is said (`more`).

#include <sys/stat.h>

#include <lauxlib.h>
#include <sqlite3.h>

#include "base/time.h"
#include "bind/bind_int.h"
#include "bind/faces.h"

enum {
    QUERY_MS = 5000,
    STEPS = 10000, // of SQLite's machine between looks at the clock
    ROWS_MAX = 10000,
    BYTES_MAX = 8 << 20, // no row begins beyond it, and no value is larger
    ANSWER_MAX = 16 << 20,
    ARGS_MAX = 100,
    WAIT_MS = 1000, // for a writer
};

struct query {
    struct bind_op op;
    struct arena arena;
    char *path;
    const char *sql;
    const struct json *args; // an array, or NULL
    struct buf answer;       // JSON
    struct err error;        // without a code: none
    uint64_t until_ns;       // monotonic
};

static void query_free(struct bind_op *op)
{
    struct query *q = container_of(op, struct query, op);
    arena_fini(&q->arena);
    buf_fini(&q->answer);
    free(q->path);
    free(q);
}

// ---- on a thread --------------------------------------------------------------------------------

static int on_steps(void *arg)
{
    const struct query *q = arg;
    return time_mono_ns() > q->until_ns;
}

static int bind_args(struct query *q, sqlite3_stmt *s)
{
    int n = 0, rc = SQLITE_OK, wanted = sqlite3_bind_parameter_count(s);
    unsigned got = q->args != NULL ? q->args->n : 0;
    if (wanted < 0 || got != (unsigned)wanted) {
        err_set(&q->error, ERR_INVALID,
                "wrong number of arguments: %d expected, %u given; json.null stands for NULL",
                wanted, got);
        return SQLITE_RANGE;
    }
    json_foreach_item (v, q->args) {
        n++;
        switch (v->type) {
        case JSON_INT: rc = sqlite3_bind_int64(s, n, v->i); break;
        case JSON_BOOL: rc = sqlite3_bind_int(s, n, json_bool(v, false)); break;
        case JSON_STR:
            rc = sqlite3_bind_text64(s, n, v->s.p, v->s.n, SQLITE_STATIC, SQLITE_UTF8);
            break;
        case JSON_NULL: rc = sqlite3_bind_null(s, n); break;
        default: rc = sqlite3_bind_double(s, n, json_double(v, 0));
        }
        if (rc != SQLITE_OK) {
            break;
        }
    }
    return rc;
}

static void write_value(struct jw *w, sqlite3_stmt *s, int i)
{
    switch (sqlite3_column_type(s, i)) {
    case SQLITE_INTEGER: jw_int(w, sqlite3_column_int64(s, i)); break;
    case SQLITE_FLOAT: jw_double(w, sqlite3_column_double(s, i)); break;
    case SQLITE_NULL: jw_null(w); break;
    default: {
        const char *text = sqlite3_column_blob(s, i);
        jw_str(w, (struct str){text != NULL ? text : "", (size_t)sqlite3_column_bytes(s, i)});
    }
    }
}

/// Write the rows; the code of the last step, SQLITE_ROW when some were left out.
static int write_rows(struct query *q, sqlite3_stmt *s)
{
    int rc = SQLITE_OK, columns = sqlite3_column_count(s);
    struct jw w = {.out = &q->answer};
    jw_obj(&w);
    jw_karr(&w, "columns");
    for (int i = 0; i < columns; i++) {
        jw_strz(&w, sqlite3_column_name(s, i));
    }
    jw_end_arr(&w);
    jw_karr(&w, "rows");
    for (size_t n = 0; (rc = sqlite3_step(s)) == SQLITE_ROW; n++) {
        if (n == ROWS_MAX || q->answer.n > BYTES_MAX) {
            break;
        }
        jw_arr(&w);
        for (int i = 0; i < columns && buf_ok(&q->answer); i++) {
            write_value(&w, s, i);
        }
        jw_end_arr(&w);
    }
    jw_end_arr(&w);
    jw_kbool(&w, "more", rc == SQLITE_ROW);
    jw_end_obj(&w);
    return rc;
}

static void run(struct query *q, sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    const char *rest = "";
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, BYTES_MAX);
    sqlite3_busy_timeout(db, WAIT_MS);
    sqlite3_progress_handler(db, STEPS, on_steps, q);
    int rc = sqlite3_prepare_v2(db, q->sql, -1, &s, &rest);
    const char *wrong = rc != SQLITE_OK ? NULL
                        : s == NULL     ? "there is no statement"
                        : rest[strspn(rest, " \t\r\n;")] != '\0'
                            ? "there is more than one statement"
                        : !sqlite3_stmt_readonly(s) ? "only statements that read are run"
                                                    : NULL;
    if (wrong != NULL) {
        err_set(&q->error, ERR_INVALID, "%s", wrong);
    } else if (rc == SQLITE_OK && (rc = bind_args(q, s)) == SQLITE_OK) {
        rc = write_rows(q, s);
    }
    bool good = rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW;
    if (!buf_ok(&q->answer)) {
        err_set(&q->error, ERR_TOO_LARGE, "the answer is larger than %d MiB", ANSWER_MAX >> 20);
    } else if (!good && q->error.code == 0) {
        err_set(&q->error, ERR_INVALID, "%s",
                rc == SQLITE_INTERRUPT ? "it took too long" : sqlite3_errmsg(db));
    }
    sqlite3_finalize(s);
}

static void on_work(void *arg)
{
    struct query *q = arg;
    sqlite3 *db = NULL;
    struct stat st;
    if (stat(q->path, &st) == 0 &&
        !S_ISREG(st.st_mode)) { // opening a pipe may wait for its other end
        err_set(&q->error, ERR_INVALID, "it is not a regular file");
        return;
    }
    q->until_ns = time_mono_ns() + QUERY_MS * 1000000ull;
    int rc = sqlite3_open_v2(q->path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK) {
        err_set(&q->error, ERR_INVALID, "%s", db != NULL ? sqlite3_errmsg(db) : "out of memory");
    } else {
        run(q, db);
    }
    sqlite3_close(db);
}

// ---- on the loop --------------------------------------------------------------------------------

static void on_done(void *arg)
{
    struct query *q = arg;
    lua_State *L = bind__op_answer_begin(&q->op);
    struct json *v = NULL;
    if (L != NULL && q->error.code == 0 &&
        json_parse(&v, &q->arena, buf_str(&q->answer), NULL, &q->error) == 0) {
        value_push(L, v);
        bind__op_answer(&q->op, 1);
    } else if (L != NULL) {
        bind__op_answer(&q->op, args_fail(L, "sqlite.query: '%s': %s", q->path, q->error.msg));
    }
    query_free(&q->op);
}

static int query_start(struct bind_op *op, struct err *e)
{
    (void)e;
    struct query *q = container_of(op, struct query, op);
    work_submit(op->o->bind->files, work_mount_key(q->path), on_work, on_done, q);
    return 0;
}

static const struct bind_op_kind query_kind = {
    .line = LINE_FS, .start = query_start, .free = query_free}; // a thread cannot be stopped

/// Can `args` be bound one by one? An empty table is read as an object.
static bool is_plain_list(const struct json *args)
{
    json_foreach_item (v, args) {
        if (v->type == JSON_ARR || v->type == JSON_OBJ) {
            return false;
        }
    }
    return args->type == JSON_ARR || args->n == 0;
}

/// Read the table at 3 as the arguments.
static int read_args(lua_State *L, struct query *q, struct err *e)
{
    struct json *args;
    if (value_read(&args, &q->arena, L, 3, e) < 0) {
        return err_prefix(e, "args");
    }
    if (args->n > ARGS_MAX) {
        return err_set(e, ERR_TOO_LARGE, "args: at most %d", ARGS_MAX);
    }
    if (!is_plain_list(args)) {
        return err_set(e, ERR_INVALID,
                       "args must be a list of plain values; json.null stands for NULL");
    }
    q->args = args;
    return 0;
}

/// sqlite.query(path, sql, args?, callback?): {columns, rows, more}, or nil and a message.
static int l_query(lua_State *L)
{
    static const char fn[] = "sqlite.query";
    const char *path = args_z(L, 1, fn, "path"), *sql = args_z(L, 2, fn, "sql");
    bool plain = lua_isfunction(L, 3);
    int callback = plain ? 3 : 4;
    if (!plain && !lua_isnoneornil(L, 3) && !lua_istable(L, 3)) {
        return luaL_error(L, "%s: args must be a table, not %s", fn, luaL_typename(L, 3));
    }
    lua_settop(L, 4);
    bind__op_check(L, callback, fn); // may raise: nothing is held yet
    char *whole = bind__fs.resolve(path);
    if (whole == NULL) {
        return luaL_error(L, "%s: path must be absolute or begin with ~/", fn);
    }
    struct query *q = xcalloc(1, sizeof *q);
    struct err e = {0};
    buf_init(&q->answer, ANSWER_MAX);
    q->path = whole;
    q->sql = arena_strdup(&q->arena, str_of(sql));
    if (!plain && !lua_isnil(L, 3) && read_args(L, q, &e) < 0) {
        query_free(&q->op);
        return luaL_error(L, "%s: %s", fn, e.msg);
    }
    return bind__op_run(L, &q->op, &query_kind, fn, sizeof *q + q->arena.used, callback);
}

const luaL_Reg face_sqlite[] = {{"query", l_query}, {NULL, NULL}};
