// Going back to the state before a turn.
//
//     the record from that turn on ──> per path: what it held first, what the session left there last
//     what it holds now ──> the same as before: nothing to do
//                       ──> as the session left it: bring it back
//                       ──> anything else: another program changed it since, a conflict
//
// A rewind is a point too: it stores what it is about to replace and records that before the first file
// changes. So it can be undone like a turn, even if a kill cut it short.

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "rewind/rewind_int.h"

/// A path, from the first to the last change since the point.
struct path_plan {
    const char *full; // absolute
    const char *base, *path;
    struct kept_state before, left, now;
    bool open; // `left` is not known
    size_t order;
};

typedef vec(struct path_plan) path_plans;

static int by_path_and_order(const void *a, const void *b)
{
    const struct path_plan *x = a, *y = b;
    int rc = strcmp(x->full, y->full);
    return rc != 0 ? rc : (x->order > y->order) - (x->order < y->order);
}

/// The changes of the points from `from` on and before `end`, one row for each path.
static void gather(struct rewind_job *j, const struct rewind_point *from,
                   const struct rewind_point *end, path_plans *out)
{
    path_plans all = {0};
    for (const struct rewind_point *p = from; p < end; p++) {
        vec_foreach (c, &p->changes) {
            struct path_plan row = {.full = arena_printf(&j->arena, "%s/%s", c->base, c->path),
                                    .base = c->base,
                                    .path = c->path,
                                    .before = c->before,
                                    .left = c->after,
                                    .open = c->open,
                                    .order = all.n};
            vec_push(&all, row);
        }
    }
    if (all.n != 0) {
        qsort(all.p, all.n, sizeof *all.p, by_path_and_order);
    }
    vec_foreach (row, &all) {
        struct path_plan *last = out->n != 0 ? vec_last(out) : NULL;
        if (last != NULL && strcmp(last->full, row->full) == 0) {
            last->left = row->left;
            last->open = row->open;
        } else {
            vec_push(out, *row);
        }
    }
    vec_fini(&all);
}

/// Let `*fd` be the directory `base`; it may be open already, since rows of one base come one after the other.
static int open_base(int *fd, const char **open_path, const char *base, struct err *e)
{
    if (*open_path != NULL && strcmp(*open_path, base) == 0) {
        return 0;
    }
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *open_path = base;
    return *fd >= 0 ? 0 : err_sys(e, "cannot open '%s'", base);
}

static int by_full(const void *key, const void *row)
{
    return strcmp(key, ((const struct path_plan *)row)->full);
}

/// Is everything in the directory `dir` removed by the rows? A directory goes with the last file in it.
static bool goes(const path_plans *rows, const char *dir, bool even_empty)
{
    struct folder f = folder_open(dir);
    bool ours = true, any = even_empty;
    while (ours && folder_next(&f)) {
        char *path = path_join(dir, f.name);
        const struct path_plan *row = bsearch(path, rows->p, rows->n, sizeof *rows->p, by_full);
        ours = f.type == DT_DIR ? goes(rows, path, false)
                                : row != NULL && row->before.kind == KEPT_ABSENT;
        any = true;
        free(path);
    }
    folder_close(&f);
    return ours && any;
}

/// Is it as the session left it, so that it can be replaced?
static bool is_ours(const path_plans *rows, const struct path_plan *row)
{
    bool same = !row->open && kept_same(&row->now, &row->left) && row->now.kind != KEPT_NOT;
    bool in_the_way = row->now.kind == KEPT_ABSENT && path_is_dir(row->full);
    return same && (!in_the_way || goes(rows, row->full, true));
}

/// Leave only the rows whose path is not as before, and fill in the result.
static int judge(struct rewind_job *j, const struct rewind_point *from, path_plans *rows,
                 struct err *e)
{
    struct rewind_result *out = &j->result;
    const char *base = NULL;
    int rc = 0, fd = -1;
    size_t n = 0;
    vec(const char *) lines = {0};
    out->files = arena_calloc(&j->arena, rows->n + 1, sizeof *out->files);
    for (size_t i = 0; rc == 0 && i < rows->n; i++) {
        struct path_plan *row = &rows->p[i];
        rc = open_base(&fd, &base, row->base, e);
        rc = rc == 0 ? kept_look(j->wish.dry_run ? NULL : &j->s->store, fd, row->path, &row->now, e)
                     : rc;
        if (rc < 0 || kept_same(&row->now, &row->before)) {
            continue;
        }
        if (row->before.kind == KEPT_NOT) {
            vec_push(&lines, row->full);
            continue;
        }
        bool ours = is_ours(rows, row);
        out->conflicts += !ours;
        out->files[out->n_files++] = (struct rewind_file){
            .path = row->full, .deletes = row->before.kind == KEPT_ABSENT, .conflict = !ours};
        rows->p[n++] = *row;
    }
    rows->n = n;
    for (const struct rewind_point *p = from; p < j->past.points.p + j->past.points.n; p++) {
        vec_foreach (line, &p->not_kept) {
            vec_push(&lines, *line);
        }
    }
    out->not_kept = (struct git_names){.p = arena_list(&j->arena, lines.p, lines.n), .n = lines.n};
    vec_fini(&lines);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/// Record the rewind as a point: what is there now, and what will be.
static int write_point(struct rewind_job *j, const path_plans *rows, struct err *e)
{
    struct buf line = {.max = SIZE_MAX};
    int rc = 0;
    struct jw w = {.out = &line};
    jw_obj(&w);
    jw_kstrz(&w, "turn", j->wish.id);
    jw_kint(&w, "at", j->wish.at);
    jw_key(&w, "text");
    jw_strf(&w, "rewound to %s", j->wish.to);
    jw_end_obj(&w);
    rc = rewind_record_append(j->s->record, buf_str(&line), e);
    for (size_t i = 0, n; rc == 0 && i < rows->n; i += n) { // a line for the rows of one base
        rewind_changes changes = {0};
        for (n = 0; i + n < rows->n && strcmp(rows->p[i + n].base, rows->p[i].base) == 0; n++) {
            const struct path_plan *row = &rows->p[i + n];
            struct rewind_change c = {.path = row->path, .before = row->now, .after = row->before};
            vec_push(&changes, c);
        }
        buf_clear(&line);
        jw_init(&w, &line);
        jw_obj(&w);
        jw_kstrz(&w, "turn", j->wish.id);
        rewind_write_changes(&w, rows->p[i].base, changes.p, changes.n);
        jw_end_obj(&w);
        rc = rewind_record_append(j->s->record, buf_str(&line), e);
        vec_fini(&changes);
    }
    buf_fini(&line);
    return rc;
}

/// Restore the rows: first those that go, since a directory may stand where a file was.
static int put_back(struct rewind_job *j, const path_plans *rows, struct err *e)
{
    const char *base = NULL;
    int rc = 0, fd = -1;
    for (size_t i = 0; i < 2 * rows->n; i++) {
        const struct path_plan *row = &rows->p[i % rows->n];
        struct err why = {0};
        if ((row->before.kind == KEPT_ABSENT) != (i < rows->n)) {
            continue;
        }
        int one = open_base(&fd, &base, row->base, &why);
        one = one == 0 ? kept_put(&j->s->store, fd, row->path, &row->before, &why) : one;
        if (one < 0 && rc == 0) { // continue: the more is restored, the better
            rc = err_set(e, one, "'%s' was not restored: %s", row->full, why.msg);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/// ERR_CONFLICT, with the first of the files.
static int name_conflicts(const struct rewind_job *j, struct err *e)
{
    const char *first = NULL;
    for (size_t i = 0; first == NULL && i < j->result.n_files; i++) {
        first = j->result.files[i].conflict ? j->result.files[i].path : NULL;
    }
    size_t more = j->result.conflicts - 1;
    assert(first != NULL);
    return err_set(e, ERR_CONFLICT,
                   "'%s'%s changed after this session wrote it; nothing was restored", first,
                   more != 0 ? " and other files were" : " was");
}

static int restore(struct rewind_job *j, struct err *e)
{
    path_plans rows = {0};
    int rc = rewind_record_read(&j->past, j->s->record, e);
    const struct rewind_point *last =
        rc == 0 && j->past.points.n != 0 ? vec_last(&j->past.points) : NULL;
    const struct rewind_point *from =
        rc != 0 || j->wish.to == NULL ? last : rewind_record_find(&j->past, j->wish.to);
    if (rc == 0 && from == NULL) {
        return err_set(e, ERR_NOT_FOUND, "there is no turn%s%s to go back to",
                       j->wish.to != NULL ? " " : "", j->wish.to != NULL ? j->wish.to : "");
    }
    if (rc == 0) {
        j->wish.to = j->result.to = from->turn;
    }
    for (const struct rewind_point *p = from;
         rc == 0 && !j->wish.no_files && p < j->past.points.p + j->past.points.n; p++) {
        if (p->dropped) {
            return err_set(e, ERR_NOT_FOUND,
                           "the files of turn '%s' are not kept any more ([limits] checkpoint_mb)",
                           p->turn);
        }
    }
    if (rc == 0 && !j->wish.no_files) {
        gather(j, from, j->past.points.p + j->past.points.n, &rows);
        rc = judge(j, from, &rows, e);
    }
    if (rc == 0 && j->result.conflicts != 0 && !j->wish.force && !j->wish.dry_run) {
        rc = name_conflicts(j, e);
    }
    if (rc == 0 && !j->wish.dry_run) {
        rc = write_point(j, &rows, e);
        rc = rc == 0 ? put_back(j, &rows, e) : rc;
    }
    vec_fini(&rows);
    return rc;
}

static void restore_work(void *arg)
{
    struct rewind_job *j = arg;
    j->status_code = restore(j, &j->err);
}

static void restore_done(void *arg)
{
    struct rewind_job *j = arg;
    j->restored(j->arg, j->status_code, j->status_code < 0 ? &j->err : NULL, &j->result);
    rewind_record_fini(&j->past);
    rewind__job_end(j);
}

static void start_restore(struct rewind_job *j)
{
    rewind__lane(j, restore_work, restore_done);
}

void rewind_restore(struct rewind_session *s, const struct rewind_wish *wish, rewind_restore_cb *cb,
                    void *arg)
{
    struct rewind_job *j = rewind__job_new(s, start_restore, true);
    j->wish = *wish;
    j->wish.to = wish->to != NULL ? arena_strdup(&j->arena, str_of(wish->to)) : NULL;
    j->wish.id = arena_strdup(&j->arena, str_of(wish->id));
    j->restored = cb;
    j->arg = arg;
}

// ---- the list -----------------------------------------------------------------------------------

static void list_work(void *arg)
{
    struct rewind_job *j = arg;
    j->status_code = rewind_record_read(&j->past, j->s->record, &j->err);
}

static void list_done(void *arg)
{
    struct rewind_job *j = arg;
    const struct rewind_record *r = &j->past;
    struct rewind_listed *list = arena_calloc(&j->arena, r->points.n + 1, sizeof *list);
    for (size_t i = 0; i < r->points.n; i++) {
        const struct rewind_point *p = &r->points.p[i];
        path_plans rows = {0};
        gather(j, p, p + 1, &rows);
        const char **files = arena_calloc(&j->arena, rows.n + 1, sizeof *files);
        for (size_t k = 0; k < rows.n; k++) {
            files[k] = rows.p[k].full;
        }
        list[i] = (struct rewind_listed){.turn = p->turn,
                                         .at = p->at,
                                         .text = p->text,
                                         .dropped = p->dropped,
                                         .files = {.p = files, .n = rows.n},
                                         .not_kept = {.p = p->not_kept.p, .n = p->not_kept.n}};
        vec_fini(&rows);
    }
    j->listed(j->arg, j->status_code, j->status_code < 0 ? &j->err : NULL, list, r->points.n);
    rewind_record_fini(&j->past);
    rewind__job_end(j);
}

static void start_list(struct rewind_job *j)
{
    rewind__lane(j, list_work, list_done);
}

void rewind_list(struct rewind_session *s, rewind_list_cb *cb, void *arg)
{
    struct rewind_job *j = rewind__job_new(s, start_list, true);
    j->listed = cb;
    j->arg = arg;
}
