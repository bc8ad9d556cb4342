// A plugin's C sources made into a library.
//
//     texts of `load`, or the file at its path ── hash ──> CACHE/c-NAME-HASH.so is there: done
//                               ── written to a directory beside it ── cc ──> renamed into place
//
// The compiler gets the texts that were hashed, not the plugin's files. What it says about them is told with the names that
// the author knows. Other libraries of a plugin that were made more than a day ago are removed when it is loaded.

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/vec.h"
#include "host/c_int.h"
#include "host/runtime.h"

enum { SOURCE_MAX = 16 << 20, OLD_S = 24 * 3600, HASH_DIGITS = 24 };

void c_fault_fini(struct c_fault *f)
{
    free(f->message);
    free(f->path);
    *f = (struct c_fault){0};
}

static char *fail(struct c_fault *f, char *message)
{
    f->message = message;
    return NULL;
}

// ---- names ----------------------------------------------------------------------------------

/// Where libraries are kept: given by the hub, else a directory of this process.
static char *cache_dir(void)
{
    const char *said = getenv("AFLOAT_HOST_CACHE");
    char own[] = "/tmp/afloat-c-XXXXXX";
    if (said != NULL && path_mkdirs(said, 0700, NULL) == 0) {
        return xstrdup(said);
    }
    return mkdtemp(own) != NULL ? xstrdup(own) : NULL;
}

static char *library_path(const char *dir, const struct json *load, const struct json *files)
{
    const struct shipped *header = host_runtime_find("plugin.h");
    struct sha256 sum;
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    sha256_init(&sum);
    sha256_add(&sum, header->text, header->n);
    json_foreach_member (m, files) {
        struct str text = json_str(&m->value, "");
        sha256_add(&sum, m->key.p, m->key.n);
        sha256_add(&sum, "", 1);
        sha256_add(&sum, text.p, text.n);
        sha256_add(&sum, "", 1);
    }
    sha256_final(&sum, hash);
    struct str name = json_str(json_get(load, "name"), "plugin");
    return xasprintf("%s/c-" STR_FMT "-%.*s.so", dir, STR_ARG(name), HASH_DIGITS,
                     sha256_hex(hash, hex));
}

// ---- files ----------------------------------------------------------------------------------

static int write_file(const char *dir, struct str rel, struct str text)
{
    char *path = xasprintf("%s/" STR_FMT, dir, STR_ARG(rel));
    char *parent = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(parent, 0700, NULL);
    int fd = rc == 0 ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    rc = fd >= 0 ? path_write_fd(fd, text) : -1;
    if (fd >= 0) {
        close(fd);
    }
    free(parent);
    free(path);
    return rc;
}

/// Remove the libraries of this plugin that were made more than a day ago.
static void prune(const char *dir, struct str name, const char *keep)
{
    char *prefix = xasprintf("c-" STR_FMT "-", STR_ARG(name));
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        char *path = path_join(dir, f.name);
        struct stat st;
        bool is_own = str_starts(str_of(f.name), prefix) &&
                      strspn(f.name + strlen(prefix), "0123456789abcdef") == HASH_DIGITS;
        if (is_own && strcmp(path, keep) != 0 && stat(path, &st) == 0 &&
            st.st_mtime + OLD_S < time(NULL)) {
            (void)!path_remove_tree(path, NULL); // what stays is pruned later
        }
        free(path);
    }
    free(prefix);
}

// ---- the compiler ---------------------------------------------------------------------------

/// Start a compiler in `cwd` with its output into `fd`; 0, or what failed for all of them.
static int start_compiler(pid_t *pid, char *const *argv, const char *cwd, int fd)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    posix_spawn_file_actions_t actions;
    int rc = ENOENT;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&actions, cwd);
    for (size_t i = 0; i < ARRAY_LEN(names) && rc == ENOENT; i++) {
        rc = posix_spawnp(pid, names[i], &actions, NULL, argv, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/// Run a compiler to its end; its exit code, 127 when there is none. What it says is added to `said`.
static int run_compiler(char *const *argv, const char *cwd, struct buf *said)
{
    int pipes[2], status = 0;
    pid_t pid = 0;
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        return 127;
    }
    int rc = start_compiler(&pid, argv, cwd, pipes[1]);
    close(pipes[1]);
    char chunk[4096];
    for (ssize_t n; (n = read(pipes[0], chunk, sizeof chunk)) > 0;) {
        buf_add(said, chunk, (size_t)n);
    }
    close(pipes[0]);
    while (rc == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return rc == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

/// Compile what is in `cwd`, with the headers of `include`.
static int compile(const char *cwd, const char *headers, const char *out, const struct json *files,
                   struct buf *said)
{
    char *include = xasprintf("-I%s", headers);
    char *map = xasprintf("-ffile-prefix-map=%s/=", cwd);
    vec(char *) argv = {0};
    static const char *const options[] = {"cc",
                                          "-std=gnu17",
                                          "-shared",
                                          "-fPIC",
                                          "-O1",
                                          "-g",
                                          "-Wall",
                                          "-Wextra",
                                          "-I.",
                                          "-fno-omit-frame-pointer",
                                          "-fdiagnostics-color=never"};
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        vec_push(&argv, xstrdup(options[i]));
    }
    vec_push(&argv, include);
    vec_push(&argv, map);
    vec_push(&argv, xstrdup("-o"));
    vec_push(&argv, xstrdup(out));
    json_foreach_member (m, files) {
        if (str_ends(m->key, ".c")) {
            vec_push(&argv, str_dup(m->key));
        }
    }
    vec_push(&argv, xstrdup("-lm"));
    vec_push(&argv, NULL);
    int rc = run_compiler(argv.p, cwd, said);
    vec_fini_each(&argv, free);
    return rc;
}

/// Why the compiler ended with `rc`: its first line such as "init.c:12:5: error: ...", as a place and a message.
static char *explain(int rc, struct str said, const struct json *load, struct c_fault *f)
{
    if (rc == 127) {
        return fail(f, xstrdup("no C compiler is installed: plugins in C need one (apt-get install "
                               "gcc libc6-dev)"));
    }
    for (struct str rest = said; rest.n != 0;) {
        struct str line = str_cut(&rest, '\n');
        struct str file = str_cut(&line, ':'), number = str_cut(&line, ':');
        const char *mark = memmem(line.p, line.n, "error: ", 7);
        int64_t n = 0;
        if (mark == NULL || !str_to_i64(number, &n) || n <= 0) {
            continue;
        }
        struct str path = json_get_text(load, "path");
        f->path = json_bool(json_get(load, "single"), true)
                      ? str_dup(path)
                      : xasprintf(STR_FMT "/" STR_FMT, STR_ARG(path), STR_ARG(file));
        f->line = (int)n;
        return fail(f, str_dup(str_from(line, (size_t)(mark - line.p) + 7)));
    }
    return fail(f,
                xasprintf("the compiler failed with %d: %.*s", rc, (int)MIN(said.n, 400), said.p));
}

/// The texts by name. The hub sends those that it hashed; without them the file at `path` is read. NULL and `fault`.
static const struct json *files_of(const struct json *load, struct arena *a, struct c_fault *f)
{
    const struct json *sent = json_get(load, "files");
    char *path = str_dup(json_get_text(load, "path"));
    struct buf text = {.max = SOURCE_MAX};
    struct json *files = NULL;
    struct err e = {0};
    if (sent == NULL && path_read(path, &text, &e) < 0) {
        f->message = xstrdup(e.msg);
    } else if (sent == NULL) {
        struct json_member *m = arena_calloc(a, 1, sizeof *m);
        files = arena_calloc(a, 1, sizeof *files);
        m->key = arena_str(a, path_base(str_of(path)));
        m->value = (struct json){.type = JSON_STR, .s = arena_str(a, buf_str(&text))};
        *files = (struct json){.type = JSON_OBJ, .n = 1, .members = m};
    }
    buf_fini(&text);
    free(path);
    return sent != NULL ? sent : files;
}

/// Make the library `so`; NULL and `fault`.
static char *make(const char *so, const struct json *load, const struct json *files,
                  struct buf *warnings, struct c_fault *f)
{
    char *work = xasprintf("%s.d-%d", so, (int)getpid()),
         *out = xasprintf("%s.new-%d", so, (int)getpid());
    char *src = path_join(work, "src"), *headers = path_join(work, "include"), *made = NULL;
    const struct shipped *header = host_runtime_find("plugin.h");
    int rc = write_file(headers, STR("afloat/plugin.h"), (struct str){header->text, header->n});
    json_foreach_member (m, files) {
        rc = rc == 0 ? write_file(src, m->key, json_str(&m->value, "")) : rc;
    }
    if (rc < 0) {
        fail(f, xasprintf("cannot write to '%s'", work));
    } else {
        rc = compile(src, headers, out, files, warnings);
        made = rc != 0                ? explain(rc, buf_str(warnings), load, f)
               : rename(out, so) == 0 ? xstrdup(so)
                                      : fail(f, xasprintf("cannot make '%s'", so));
    }
    (void)!path_remove_tree(work, NULL);
    free(src);
    free(headers);
    free(work);
    free(out);
    return made;
}

char *c_build(const struct json *load, struct buf *warnings, struct c_fault *fault)
{
    struct arena a = {0};
    const struct json *files = files_of(load, &a, fault);
    char *dir = files != NULL ? cache_dir() : NULL, *so = NULL, *made = NULL;
    if (dir != NULL) {
        so = library_path(dir, load, files);
        made = access(so, R_OK) == 0 ? xstrdup(so) : make(so, load, files, warnings, fault);
    } else if (files != NULL) {
        fail(fault, xstrdup("there is no place for compiled plugins"));
    }
    if (made != NULL) {
        prune(dir, json_str(json_get(load, "name"), "plugin"), so);
    }
    free(so);
    free(dir);
    arena_fini(&a);
    return made;
}
