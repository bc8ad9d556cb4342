// The process of a plugin in Python, Node or C.
//
//     limits ── our program for the language, as a file in memory ── exec of the interpreter
//
// The far end of the protocol is written in the plugin's own language (runtime/host/) and comes inside this binary.
// It is handed over as a descriptor: nothing has to be installed beside the binary or can be changed on disk.
// Its last argument but "--validate" is the table of hook points as JSON, from which it makes its own functions.
// A program that is missing is a message with the command that installs it.

#include "host/script.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/sha256.h"
#include "hook/points.h"
#include "host/c_plugin.h"
#include "host/runtime.h"
#include "proto/host.h"

struct script {
    const char *lang, *file;
    const char *
        boot; // text that loads `file` from a descriptor: its number and a name follow; NULL: `file` is the text
    const char
        *const programs[3];    // tried in this order; a name without a slash is looked for in PATH
    const char *const args[8]; // before `boot`; NULL at the end
    const char *heap;          // option that sets its memory in MiB; NULL: it has none
    const char *missing;
    bool limits_memory; // by what may be mapped; others reserve more than they use
};

static const struct script scripts[] = {
    {.lang = "python",
     .file = "python.py",
     .boot = "python_boot.py",
     .programs = {"/usr/bin/python3", "python3"},
     .args = {"-I", "-S", "-B", "-c", NULL},
     .missing = "python3 is not installed: plugins in Python need it (apt-get install python3)",
     .limits_memory = true},
    {.lang = "node",
     .file = "node.mjs",
     .programs = {"/usr/bin/node", "node"},
     .args = {"--no-warnings", "--experimental-vm-modules", "--input-type=module", "-e", NULL},
     .heap = "--max-old-space-size",
     .missing = "node is not installed: plugins in JavaScript need Node 18 or newer (apt-get "
                "install nodejs)"},
};

/// Say why there will be no answer: to the hub on its socket, to a validation on stdout.
static int refuse(bool validate, const char *message)
{
    struct buf line = {.max = SIZE_MAX};
    struct jw w = {.out = &line};
    jw_obj(&w);
    jw_kbool(&w, "ok", false);
    jw_kstrz(&w, "type", "failed");
    jw_kstrz(&w, "message", message);
    jw_end_obj(&w);
    buf_addc(&line, '\n');
    int rc = path_write_fd(validate ? STDOUT_FILENO : HOST_FD, buf_str(&line));
    buf_fini(&line);
    return rc < 0 ? 2 : 1;
}

const struct shipped *host_runtime_find(const char *name)
{
    const struct shipped *s = host_runtime;
    while (s->rel != NULL && strcmp(s->rel, name) != 0) {
        s++;
    }
    assert(s->rel != NULL);
    return s;
}

/// The text of a file that came inside this binary, as a descriptor that survives exec; -1: `errno` says why.
static int open_shipped(const char *name)
{
    const struct shipped *s = host_runtime_find(name);
    int fd = memfd_create(name, 0);
    if (fd >= 0 && path_write_fd(fd, (struct str){s->text, s->n}) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static unsigned memory_mb(void)
{
    const char *said = getenv("AFLOAT_HOST_MEMORY_MB");
    return said != NULL ? (unsigned)strtoul(said, NULL, 10) : 0;
}

/// The name of what is made of `text`, for a cache.
static void name_of(char out[40], const char *lang, const struct shipped *text)
{
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    sha256_of((struct str){text->text, text->n}, hash);
    snprintf(out, 40, "%s-%.24s", lang, sha256_hex(hash, hex));
}

/// `{"on_tool_call": {"kind": "chain", "args": ["call"]}, ...}`, in the order of a turn.
static void write_points(struct buf *out)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    for (size_t i = 0; i < POINT__COUNT; i++) {
        const struct hook_point *p = &hook_points[i];
        jw_kobj(&w, p->name);
        jw_kstrz(&w, "kind", hook_kind_name(p->kind));
        jw_karr(&w, "args");
        for (size_t k = 0; k < HOOK_ARGS && p->args[k] != HOOK_SHAPE_NONE; k++) {
            jw_strz(&w, hook_shape_names[p->args[k]]);
        }
        jw_end_arr(&w);
        jw_end_obj(&w);
    }
    jw_end_obj(&w);
}

/// Returns only when no program could be entered.
static void enter(const struct script *s, int fd, const char *points, bool validate)
{
    char number[16], name[40], heap[64] = "";
    const char *argv[16];
    snprintf(number, sizeof number, "%d", fd);
    name_of(name, s->lang, host_runtime_find(s->file));
    if (s->heap != NULL && memory_mb() != 0) {
        snprintf(heap, sizeof heap, "%s=%u", s->heap, memory_mb());
    }
    for (size_t i = 0; s->programs[i] != NULL; i++) {
        size_t n = 0;
        argv[n++] = s->programs[i];
        if (heap[0] != '\0') {
            argv[n++] = heap;
        }
        for (size_t k = 0; s->args[k] != NULL; k++) {
            argv[n++] = s->args[k];
        }
        argv[n++] = host_runtime_find(s->boot != NULL ? s->boot : s->file)->text;
        argv[n++] = s->boot != NULL ? number : "--";
        argv[n++] = name;
        argv[n++] = points;
        argv[n++] = validate ? "--validate" : NULL;
        argv[n] = NULL;
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    }
}

int host_script_main(const char *lang, bool validate)
{
    if (strcmp(lang, "c") == 0) { // we are that ourselves
        return host_c_main(validate);
    }
    const struct script *s = scripts;
    while (s < scripts + ARRAY_LEN(scripts) && strcmp(s->lang, lang) != 0) {
        s++;
    }
    if (!validate && fcntl(HOST_FD, F_GETFD) < 0) {
        fputs("afloat host is started by the hub, not by hand\n", stderr);
        return 2;
    }
    if (s == scripts + ARRAY_LEN(scripts)) {
        char text[64];
        snprintf(text, sizeof text, "no host for %s", lang);
        return refuse(validate, text);
    }
    int fd = s->boot != NULL ? open_shipped(s->file) : 0;
    if (fd < 0) {
        return refuse(validate, "the program of this host cannot be written to memory");
    }
    struct buf points = {.max = SIZE_MAX};
    write_points(&points); // before memory is limited: a sanitizer needs much for its first pages
    rlim_t bytes = (rlim_t)memory_mb() << 20;
    if (s->limits_memory && bytes != 0) {
        setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
    }
    enter(s, fd, buf_z(&points), validate);
    buf_fini(&points);
    return refuse(validate, s->missing);
}
