// What is kept around a command.
//
//     snapshot, "begin" ──> it runs ──> compare, "end" with what changed
//
// A snapshot is taken with git's list of what is not committed. The session remembers the last one. When
// the tripwire says that nothing was touched since, it still holds, and git is not asked. The wire is
// trusted only when it was armed before the snapshot was taken (`sure`), so the second command of a
// session looks once more and the third one does not.
//
// When the hub is killed while a command runs, its "begin" has no "end", and the snapshot before it is
// in `snapshot.json`. The next job of the session first compares with that, so what the command did can be
// undone like anything else.
//
// Invariant: `now` and `snapshot.json` are the same whenever a command may run.

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "rewind/rewind_int.h"

// ---- a command ----------------------------------------------------------------------------------

static void copy_status(struct rewind_job *j, const struct git_status *from)
{
    struct git_dirty *list = arena_calloc(&j->arena, from->n + 1, sizeof *list);
    const char **dirs = arena_calloc(&j->arena, from->dirs.n + 1, sizeof *dirs);
    for (size_t i = 0; i < from->n; i++) {
        list[i] = from->p[i];
        list[i].path = arena_strdup(&j->arena, str_of(from->p[i].path));
    }
    for (size_t i = 0; i < from->dirs.n; i++) {
        dirs[i] = arena_strdup(&j->arena, str_of(from->dirs.p[i]));
    }
    j->status = (struct git_status){.root = arena_strdup(&j->arena, str_of(from->root)),
                                    .head = arena_strdup(&j->arena, str_of(from->head)),
                                    .p = list,
                                    .n = from->n,
                                    .dirs = {.p = dirs, .n = from->dirs.n}};
}

/// The new snapshot is the session's, in memory and on disk; a wire is armed when there is none.
static void adopt(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    struct err e;
    if (snapshot_save(&j->fresh, s->snapshot_file, &e) < 0) {
        rewind__note(j, e.msg);
    }
    snapshot_fini(&s->now);
    s->now = j->fresh;
    j->fresh = (struct snapshot){0};
    if (s->wire == NULL) {
        s->wire = tripwire_arm(s->now.root, j->status.dirs.p, j->status.dirs.n);
        s->sure = false;
    }
}

/// Ask the wire what happened; one that cannot see all of the tree is cut.
static enum tripped ask_wire(struct rewind_session *s)
{
    enum tripped found = s->wire != NULL ? tripwire_ask(s->wire) : TRIPWIRE_DIRS;
    if (found == TRIPWIRE_DIRS) {
        tripwire_free(s->wire);
        s->wire = NULL;
    }
    return found;
}

static void write_begin(void *arg)
{
    struct rewind_job *j = arg;
    rewind__append(j, "begin", NULL, NULL);
}

/// Take a snapshot of what git listed. A failure is a note, and `fresh` is empty then.
static void take_fresh(struct rewind_job *j)
{
    struct err e;
    if (snapshot_take(&j->fresh, &j->s->now, &j->status, &j->s->store, &e) < 0) {
        rewind__note(j, e.msg);
        snapshot_fini(&j->fresh);
    }
}

static void take_before(void *arg)
{
    struct rewind_job *j = arg;
    take_fresh(j);
    if (j->fresh.root != NULL) {
        adopt(j);
        rewind__append(j, "begin", NULL, NULL);
    }
}

static const char outside[] = "what a command changes outside of a git checkout is not kept";

static void got_before(void *arg, int status, const struct err *e, const struct git_status *r)
{
    struct rewind_job *j = arg;
    if (status < 0) {
        rewind__note(j, status == ERR_NOT_FOUND ? outside : e->msg);
        rewind__ready(j);
        return;
    }
    copy_status(j, r);
    rewind__lane(j, take_before, rewind__ready);
}

/// Look for a checkout without git: most commands outside of one need no process for that.
static void find_checkout(void *arg)
{
    struct rewind_job *j = arg;
    char *dir = xstrdup(j->s->working_dir);
    bool found = false;
    for (char *slash = dir; !found && slash != NULL;) {
        char *path = path_join(dir[0] != '\0' ? dir : "/", ".git");
        found = access(path, F_OK) == 0;
        free(path);
        slash = strrchr(dir, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
    }
    if (!found) {
        rewind__note(j, outside);
    }
    free(dir);
}

static void found_checkout(void *arg)
{
    struct rewind_job *j = arg;
    if (j->note != NULL) {
        rewind__ready(j);
    } else {
        git_status(j->s->rewind->git, j->s->working_dir, NULL, got_before, j);
    }
}

void rewind__begin_command(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    struct git *git = s->rewind->git;
    if (git == NULL || s->working_dir == NULL) {
        rewind__note(j, "what a command changes is not kept without git and a working directory");
        rewind__ready(j);
        return;
    }
    j->call->number = s->next_call++;
    bool sure = s->sure;
    if (ask_wire(s) == TRIPWIRE_STILL && sure) {
        rewind__lane(j, write_begin, rewind__ready);
        return;
    }
    s->sure = s->wire != NULL; // what comes from here on, it sees
    if (s->now.root != NULL) {
        found_checkout(j);
    } else {
        rewind__lane(j, find_checkout, found_checkout);
    }
}

static void write_end(void *arg)
{
    struct rewind_job *j = arg;
    struct err e;
    rewind__append(j, "end", j->s->now.root, &j->changes);
    if (rewind_record_shrink(j->s->record, &j->s->store, &j->s->now, j->s->max_bytes, &e) < 0) {
        rewind__note(j, e.msg);
    }
}

/// Git keeps no more of a mode than whether the file is executable. What a command wrote into in place has the rest still.
static void keep_mode(struct rewind_change *c)
{
    bool both = c->before.kind == KEPT_FILE && c->after.kind == KEPT_FILE;
    if (both && (c->before.mode & 0100) == (c->after.mode & 0100)) {
        c->before.mode = c->after.mode;
    }
}

/// Fill in what was clean before, from where git wrote it out, and clear that up.
static void take_extracted(void *arg)
{
    static const struct kept_state absent = {.kind = KEPT_ABSENT};
    struct rewind_job *j = arg;
    struct err e;
    size_t n = 0;
    int fd = open(j->s->tmp, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < j->changes.n; i++) {
        struct rewind_change c = j->changes.p[i];
        if (c.open) {
            c.open = false;
            c.before.kind = KEPT_NOT;
            if (fd < 0 || kept_look(&j->s->store, fd, c.path, &c.before, &e) < 0 ||
                kept_put(NULL, fd, c.path, &absent, &e) < 0) {
                rewind__note(j, "some files could not be kept");
            }
            keep_mode(&c);
        }
        if (!kept_same(&c.before, &c.after) || c.before.kind == KEPT_NOT) {
            j->changes.p[n++] = c;
        }
    }
    j->changes.n = n;
    if (fd >= 0) {
        close(fd);
    }
    rmdir(j->s->tmp);
    if (j->fresh.root != NULL) {
        adopt(j);
    }
    write_end(j);
}

static void extracted(void *arg, int status, const struct err *e)
{
    struct rewind_job *j = arg;
    if (status < 0) {
        rewind__note(j, e->msg);
    }
    rewind__lane(j, take_extracted, rewind__over);
}

static void compare(void *arg)
{
    struct rewind_job *j = arg;
    struct rewind_session *s = j->s;
    struct err e;
    take_fresh(j);
    if (j->fresh.root == NULL) {
        return;
    }
    snapshot_compare(&s->now, &j->fresh, &j->status, &j->arena, &j->changes);
    if (path_mkdirs(s->tmp, 0700, &e) < 0) {
        rewind__note(j, e.msg);
    }
}

static void compared(void *arg)
{
    struct rewind_job *j = arg;
    const char *commit = arena_strdup(&j->arena, str_of(j->s->now.head));
    struct git_names paths = {0};
    const char **list = arena_calloc(&j->arena, j->changes.n + 1, sizeof *list);
    vec_foreach (c, &j->changes) {
        if (c->open) {
            list[paths.n++] = c->path;
        }
    }
    paths.p = list;
    if (paths.n != 0 && *commit != '\0') {
        git_extract(j->s->rewind->git, j->s->now.root, commit, &paths, j->s->tmp, extracted, j);
    } else {
        rewind__lane(j, take_extracted, rewind__over);
    }
}

static void got_after(void *arg, int status, const struct err *e, const struct git_status *r)
{
    struct rewind_job *j = arg;
    if (status < 0) {
        rewind__note(j, e->msg);
        rewind__lane(j, write_end, rewind__over);
        return;
    }
    copy_status(j, r);
    rewind__lane(j, compare, compared);
}

void rewind__end_command(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    bool sure = s->sure;
    if (s->now.root == NULL || (ask_wire(s) == TRIPWIRE_STILL && sure)) {
        rewind__lane(j, write_end, rewind__over);
        return;
    }
    s->sure = s->wire != NULL;
    git_status(s->rewind->git, s->now.root, s->now.head, got_after, j);
}

// ---- settling -----------------------------------------------------------------------------------

static void look_for_open(void *arg)
{
    struct rewind_job *j = arg;
    struct rewind_session *s = j->s;
    struct rewind_call *c = j->call;
    struct rewind_record past;
    if (rewind_record_read(&past, s->record, NULL) == 0) {
        s->next_call = past.next_call;
        c->number = past.open_call;
        c->turn = past.open_call != 0 ? arena_strdup(&c->arena, str_of(past.open_turn)) : "";
    }
    rewind_record_fini(&past);
    if (c->number != 0) {
        snapshot_load(&s->now, s->snapshot_file);
    }
}

static void settle_free(struct rewind_job *j)
{
    struct rewind_job *owner = j->arg;
    rewind__call_free(j->call);
    snapshot_fini(&j->fresh);
    vec_fini(&j->changes);
    arena_fini(&j->arena);
    free(j);
    owner->s->settled = true;
    rewind__forget(owner->s); // the session may have moved since that command
    owner->start(owner);
}

static void looked_for_open(void *arg)
{
    struct rewind_job *j = arg;
    if (j->call->number != 0 && j->s->now.root != NULL && j->s->rewind->git != NULL) {
        rewind__end_command(j);
    } else {
        settle_free(j);
    }
}

void rewind__settle(struct rewind_job *j)
{
    struct rewind_job *k = xcalloc(1, sizeof *k);
    assert(!j->s->settled);
    *k = (struct rewind_job){.s = j->s, .arg = j, .call = xcalloc(1, sizeof *k->call)};
    rewind__lane(k, look_for_open, looked_for_open);
}

void rewind__over(void *arg)
{
    struct rewind_job *j = arg;
    if (j->ready == NULL) {
        settle_free(j);
        return;
    }
    j->ready(j->arg, j->note);
    rewind__call_free(j->call);
    rewind__job_end(j);
}
