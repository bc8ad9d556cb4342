// Any bytes as files that others wrote: memory.json of a workspace, and metadata.json, events.jsonl, a legacy
// session, memory and config.md of an openbot home. The first byte says which. Memory keeps its bytes, read or
// set aside; an import leaves whole sessions that are journals of ours, and a second one takes nothing.

#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "bot/history_view.h"
#include "bot/import.h"
#include "bot/memory.h"
#include "store/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64];

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_botfiles: %s\n", what);
        abort();
    }
}

static void put(const char *rel, struct str bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, rel);
    char *dir = str_dup(path_dir(str_of(path)));
    demand(path_mkdirs(dir, 0700, NULL) == 0, "cannot make a directory");
    FILE *f = fopen(path, "w");
    demand(f != NULL && fwrite(bytes.p, 1, bytes.n, f) == bytes.n && fclose(f) == 0,
           "cannot write");
    free(dir);
}

static void check_memory(struct str bytes)
{
    struct memory m;
    char dir[128];
    snprintf(dir, sizeof dir, "%s/w", root);
    put("w/memory.json", bytes);
    demand(memory_load(&m, NULL, dir, NULL) == 0, "memory cannot be read");
    size_t n = m.list.n;
    bool aside = m.note[0] != '\0';
    demand(!aside || n == 0, "damaged, and yet it has entries");
    memory_fini(&m);
    if (n < MEMORY_ENTRIES) {
        demand(memory_set(NULL, dir, STR("fuzz key"), STR("v"), NULL, NULL) == 0,
               "cannot be changed");
        demand(memory_load(&m, NULL, dir, NULL) == 0 && m.note[0] == '\0', "damaged by a change");
        demand(memory_find(&m, STR("fuzz key")) != NULL && m.list.n >= n, "something was lost");
        memory_fini(&m);
    }
}

static void check_session(const char *id)
{
    char path[256], dir[200];
    struct journal *j;
    struct journal_repair r = {0};
    struct buf out;
    struct history_wish w = {.limit = 5};
    snprintf(dir, sizeof dir, "%s/home/bots/b/workspaces/w/history/%s", root, id);
    snprintf(path, sizeof path, "%s/events.jsonl", dir);
    if (access(dir, F_OK) != 0) {
        return;
    }
    demand(journal_open(&j, path, JOURNAL_START, &r, NULL) == 0 && r.bytes_cut == 0,
           "no journal of ours");
    journal_close(j);
    buf_init(&out, SIZE_MAX);
    demand(history_view(&out, NULL, NULL, dir, &w, NULL) == 0, "cannot be shown");
    buf_fini(&out);
}

static void check_import(void)
{
    char home[128], from[128];
    snprintf(home, sizeof home, "%s/home", root);
    snprintf(from, sizeof from, "%s/open", root);
    for (int i = 0; i < 2; i++) {
        struct import_report r = {0};
        demand(import_openbot(&r, NULL, home, from, NULL, NULL) == 0, "cannot import");
        demand(i == 0 || r.counts[IMPORT_TAKEN] + r.counts[IMPORT_WARNED] == 0 ||
                   r.counts[IMPORT_FAILED] != 0,
               "a second import takes something");
        import_report_fini(&r);
    }
    check_session("s1");
    check_session("s2");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const places[] = {
        "open/bots/b/workspaces/w/history/s1/metadata.json",
        "open/bots/b/workspaces/w/history/s1/events.jsonl",
        "open/bots/b/workspaces/w/history/s2.json",
        "open/bots/b/workspaces/w/memory.json",
        "open/bots/b/config.md",
    };
    if (size == 0) {
        return 0;
    }
    struct str bytes = {(const char *)data + 1, size - 1};
    unsigned which = data[0] % (ARRAY_LEN(places) + 1);
    snprintf(root, sizeof root, "/dev/shm/fuzz-botfiles-%d", (int)getpid());
    if (which == ARRAY_LEN(places)) {
        check_memory(bytes);
    } else {
        put(places[0], STR("{\"session_number\": 3}"));
        put(places[which], bytes);
        check_import();
    }
    demand(path_remove_tree(root, NULL) == 0, "cannot clean up");
    return 0;
}
