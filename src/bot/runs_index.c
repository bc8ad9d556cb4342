// An index of all records of runs, kept while the hub runs.
//
// A home may have ten thousand runs. A list opens the records of one page; which these are, and which runs still
// run, must not need all the others.
//
//     walk bots and workspaces ──> has runs/ changed? ──> stat its records ──> read those that changed
//
// Records are replaced by rename, so a change to one of them changes the time of its directory. The kernel's file
// times advance in steps of some milliseconds: a directory or record younger than a second when we look may change
// again within the same step, so we look at it again the next time.
//
// After a start everything would have to be read once more. So each place is also written to state/runs/, when enough of it
// was read since; what it says of a record counts as long as the record's inode and time are the same. It can be removed at
// any time.
//
// Invariants: places stay where they are until the end; the entries of a place are sorted by id and borrow their
// `repository` from it; everything is under the lock.

#include "bot/runs_index.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/map.h"
#include "base/path.h"
#include "base/time.h"

enum { SETTLED_MS = 1000, KEEP_AFTER = 64, KEPT_BYTES = 256 << 20 };

static const char kept_head[] = "afloat runs 1";

struct runs_place {
    struct runs_index *index;
    char *bot, *project;
    int64_t mtime; // of the directory when it was read, nanoseconds; 0: read it again
    uint64_t walk; // the last one that came by
    size_t fresh;  // records read since the place was written to its file
    struct entries {
        struct runs_entry *p;
        size_t n, cap;
    } entries;
    vec(char *) repositories; // distinct
};

struct runs_index {
    const char *home;
    pthread_mutex_t lock;
    struct map places; // "bot/project" -> struct runs_place
    uint64_t walks;
    struct buf text; // of the record that is being read
};

struct runs_index *runs_index_new(const char *home)
{
    struct runs_index *x = xcalloc(1, sizeof *x);
    x->home = home;
    pthread_mutex_init(&x->lock, NULL);
    map_init(&x->places);
    buf_init(&x->text, RECORD_BYTES);
    return x;
}

static void empty(struct runs_place *p)
{
    vec_foreach (r, &p->repositories) {
        free(*r);
    }
    vec_fini(&p->repositories);
    vec_fini(&p->entries);
    p->mtime = 0;
}

void runs_index_free(struct runs_index *x)
{
    size_t at = 0;
    struct str key;
    void *value;
    if (x == NULL) {
        return;
    }
    while (map_next(&x->places, &at, &key, &value)) {
        struct runs_place *p = value;
        empty(p);
        free(p->bot);
        free(p->project);
        free(p);
    }
    map_fini(&x->places);
    buf_fini(&x->text);
    pthread_mutex_destroy(&x->lock);
    free(x);
}

char *runs_index_path(const struct runs_place *p, const char *id)
{
    assert(record_id_valid(str_of(id)));
    return xasprintf("%s/bots/%s/workspaces/%s/runs/%s.json", p->index->home, p->bot, p->project,
                     id);
}

// ---- one record ---------------------------------------------------------------------------------

/// The text of the member `key`, as it is written; STR_NULL when it is none. A quote within a text is written \", so
/// `"key":` is never part of one.
static struct str member_of(struct str text, const char *key)
{
    const char *at = memmem(text.p, text.n, key, strlen(key));
    if (at == NULL) {
        return STR_NULL;
    }
    struct str rest = str_trim(str_from(text, (size_t)(at - text.p) + strlen(key)));
    return str_starts(rest, "\"") ? rest : STR_NULL;
}

static const char *known_repository(struct runs_place *p, struct str s)
{
    vec_foreach (known, &p->repositories) {
        if (str_eqz(s, *known)) {
            return *known;
        }
    }
    vec_push(&p->repositories, xstrndup(s.p, s.n));
    return *vec_last(&p->repositories);
}

/// The repository of a record's text, kept once for all entries of the place.
static const char *repository_of(struct runs_place *p, struct str text)
{
    struct str s = member_of(text, "\"repository\":");
    size_t n = 1;
    if (s.n == 0) {
        return "";
    }
    while (n < s.n && s.p[n] != '"') {
        n += s.p[n] == '\\' ? 2 : 1;
    }
    s.n = MIN(n + 1, s.n);
    return known_repository(p, s);
}

static int64_t mtime_of(const struct stat *st)
{
    return st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/// `mtime`, or 0 when what has it may change again within the same step of the clock.
static int64_t settled(int64_t mtime)
{
    return time_wall_ms() - mtime / 1000000 > SETTLED_MS ? mtime : 0;
}

/// Read the members we keep. The whole record is not parsed: lists do that, for the page they show. Few calls of
/// the kernel: the first walk comes by here for every record of the home.
static void read_entry(struct runs_place *p, int dir, const char *name, struct runs_entry *r)
{
    struct buf *text = &p->index->text;
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); // no FIFO may hang us
    r->repository = "";
    buf_clear(text);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < RECORD_BYTES) {
        ssize_t n = read(fd, buf_reserve(text, (size_t)st.st_size), (size_t)st.st_size);
        r->readable = n == st.st_size;
    }
    if (r->readable) {
        buf_grow(text, (size_t)st.st_size);
        struct str time = str_from(member_of(buf_str(text), "\"started_at\":"), 1);
        r->running = str_starts(member_of(buf_str(text), "\"state\":"), "\"running\"");
        r->repository = repository_of(p, buf_str(text));
        r->inode = st.st_ino;
        r->mtime = settled(mtime_of(&st));
        time_parse(str_cut(&time, '"'), &r->started_at);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct runs_entry *)a)->id, ((const struct runs_entry *)b)->id);
}

// ---- what is kept over a restart ----------------------------------------------------------------

static char *kept_path(const struct runs_place *p)
{
    return xasprintf("%s/state/runs/%s.%s", p->index->home, p->bot, p->project);
}

/// One line: id, state, started_at, inode, mtime, repository. False: it is none.
static bool take_line(struct runs_place *p, struct str line)
{
    struct runs_entry r = {.place = p, .readable = true, .repository = ""};
    struct str id = str_cut(&line, ' '), state = str_cut(&line, ' '), started = str_cut(&line, ' ');
    struct str inode = str_cut(&line, ' '), mtime = str_cut(&line, ' ');
    uint64_t at, time;
    if (!record_id_valid(id) || !str_to_u64(started, &at) || !str_to_u64(inode, &r.inode) ||
        !str_to_u64(mtime, &time) || at > INT64_MAX || time > INT64_MAX ||
        !(str_eqz(state, "running") || str_eqz(state, "ended"))) {
        return false;
    }
    snprintf(r.id, sizeof r.id, STR_FMT, STR_ARG(id));
    r.running = str_eqz(state, "running");
    r.started_at = (int64_t)at;
    r.mtime = (int64_t)time;
    r.repository = known_repository(p, line);
    vec_push(&p->entries, r);
    return true;
}

/// What is no such file, or is damaged, is as good as none.
static void read_kept(struct runs_place *p)
{
    struct buf text = {.max = KEPT_BYTES};
    uint64_t mtime = 0;
    char *path = kept_path(p);
    struct str rest = path_read(path, &text, NULL) == 0 ? buf_str(&text) : STR_NULL;
    bool good = str_eqz(str_cut(&rest, '\n'), kept_head) &&
                str_to_u64(str_cut(&rest, '\n'), &mtime) && mtime <= INT64_MAX;
    while (good && rest.n != 0) {
        good = take_line(p, str_cut(&rest, '\n'));
    }
    if (good && p->entries.n != 0) {
        qsort(p->entries.p, p->entries.n, sizeof *p->entries.p, compare);
        p->mtime = (int64_t)mtime;
    } else {
        empty(p);
    }
    buf_fini(&text);
    free(path);
}

/// A failure costs the next start some time; it is not worth a word.
static void write_kept(struct runs_place *p)
{
    struct buf text = {.max = SIZE_MAX};
    char *path = kept_path(p), *dir = xasprintf("%s/state/runs", p->index->home);
    buf_addf(&text, "%s\n%lld\n", kept_head, (long long)p->mtime);
    vec_foreach (r, &p->entries) {
        if (r->readable) {
            buf_addf(&text, "%s %s %lld %llu %lld %s\n", r->id, r->running ? "running" : "ended",
                     (long long)r->started_at, (unsigned long long)r->inode, (long long)r->mtime,
                     r->repository);
        }
    }
    if (path_mkdirs(dir, 0700, NULL) == 0 &&
        path_write_atomic(path, buf_str(&text), 0600, NULL) == 0) {
        p->fresh = 0;
    }
    buf_fini(&text);
    free(dir);
    free(path);
}

// ---- one directory ------------------------------------------------------------------------------

/// The entry that we have for the record and that still holds; NULL when it has to be read.
static const struct runs_entry *known_entry(const struct runs_place *p, int dir, const char *name,
                                            const struct runs_entry *key)
{
    const struct runs_entry *known =
        p->entries.n != 0 ? bsearch(key, p->entries.p, p->entries.n, sizeof *key, compare) : NULL;
    struct stat st;
    return known != NULL && known->mtime != 0 && fstatat(dir, name, &st, 0) == 0 &&
                   known->inode == st.st_ino && known->mtime == mtime_of(&st)
               ? known
               : NULL;
}

/// Take in what changed in the directory `d` of the place.
static void read_place(struct runs_place *p, DIR *d)
{
    struct entries now = {0};
    struct dirent *entry;
    while ((entry = readdir(d)) != NULL) {
        struct str id = str_of(entry->d_name);
        struct runs_entry r = {.place = p};
        id.n -= str_ends(id, ".json") ? strlen(".json") : 0;
        if (id.p[id.n] == '.' && record_id_valid(id)) {
            snprintf(r.id, sizeof r.id, STR_FMT, STR_ARG(id));
            const struct runs_entry *known = known_entry(p, dirfd(d), entry->d_name, &r);
            if (known == NULL) {
                read_entry(p, dirfd(d), entry->d_name, &r);
                p->fresh++;
            }
            vec_push(&now, known != NULL ? *known : r);
        }
    }
    buf_fini(&p->index->text); // one of them may have been large
    if (now.n != 0) {
        qsort(now.p, now.n, sizeof *now.p, compare);
    }
    vec_fini(&p->entries);
    p->entries = now;
    if (p->fresh >= KEEP_AFTER) {
        write_kept(p);
    }
}

// ---- all of them --------------------------------------------------------------------------------

struct walk {
    struct runs_index *x;
    const char *project; // NULL: all
    const char *at_bot;
    runs_cb *cb;
    void *arg;
};

/// Call `cb` for every name in `dir` that is not hidden, or for `only`.
static bool each_name(const char *dir, const char *only,
                      bool (*cb)(struct walk *w, const char *name), struct walk *w)
{
    if (only != NULL) {
        return cb(w, only);
    }
    struct folder f = folder_open(dir);
    bool more = true;
    while (more && folder_next(&f)) {
        more = f.name[0] == '.' || cb(w, f.name);
    }
    folder_close(&f);
    return more;
}

static struct runs_place *place_of(struct runs_index *x, const char *bot, const char *project)
{
    char *key = xasprintf("%s/%s", bot, project);
    struct runs_place *p = map_get(&x->places, str_of(key));
    if (p == NULL) {
        p = xcalloc(1, sizeof *p);
        *p = (struct runs_place){.index = x, .bot = xstrdup(bot), .project = xstrdup(project)};
        map_set(&x->places, str_of(key), p);
        read_kept(p);
    }
    free(key);
    return p;
}

static bool walk_project(struct walk *w, const char *project)
{
    char *path = xasprintf("%s/bots/%s/workspaces/%s/runs", w->x->home, w->at_bot, project);
    DIR *d = opendir(path);
    bool more = true;
    if (d != NULL) {
        struct runs_place *p = place_of(w->x, w->at_bot, project);
        struct stat st;
        p->walk = w->x->walks;
        if (fstat(dirfd(d), &st) != 0) {
            empty(p);
        } else if (p->mtime == 0 || p->mtime != mtime_of(&st)) {
            p->mtime = settled(mtime_of(&st)); // of before: the next walk sees later changes
            read_place(p, d);
        }
        for (size_t i = 0; more && i < p->entries.n; i++) {
            more = w->cb(w->arg, &p->entries.p[i]);
        }
        closedir(d);
    }
    free(path);
    return more;
}

static bool walk_bot(struct walk *w, const char *bot)
{
    w->at_bot = bot;
    char *dir = xasprintf("%s/bots/%s/workspaces", w->x->home, bot);
    bool more = each_name(dir, w->project, walk_project, w);
    free(dir);
    return more;
}

/// A walk over everything has ended: places it did not come by have no directory any more.
static void forget_others(struct runs_index *x)
{
    size_t at = 0;
    struct str key;
    void *value;
    while (map_next(&x->places, &at, &key, &value)) {
        struct runs_place *p = value;
        if (p->walk != x->walks && p->entries.n != 0) {
            char *path = kept_path(p);
            empty(p);
            unlink(path);
            free(path);
        }
    }
}

void runs_index_each(struct runs_index *x, const char *bot, const char *project, runs_cb *cb,
                     void *arg)
{
    struct walk w = {.x = x, .project = project, .cb = cb, .arg = arg};
    assert(cb != NULL);
    char *dir = xasprintf("%s/bots", x->home);
    pthread_mutex_lock(&x->lock);
    x->walks++;
    bool whole = each_name(dir, bot, walk_bot, &w);
    if (whole && bot == NULL && project == NULL) {
        forget_others(x);
    }
    pthread_mutex_unlock(&x->lock);
    free(dir);
}
