// Our own build id, read from the note that the linker put into the program.
//
// A client compares its build with the hub's, and a version number is the same for two builds of one day.
// The note needs no generated file and changes with every link.

#include "base/build_id.h"

#include <link.h>

#include "base/base.h"

static char hex[2 * 20 + 1];

static void read_note(const ElfW(Nhdr) * note)
{
    const unsigned char *id = (const unsigned char *)(note + 1) + note->n_namesz;
    size_t n = MIN(note->n_descsz, (sizeof hex - 1) / 2);
    for (size_t i = 0; i < n; i++) {
        snprintf(hex + 2 * i, 3, "%02x", id[i]);
    }
}

static void read_segment(const char *p, size_t n)
{
    while (n >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)p;
        size_t size = sizeof *note + ((note->n_namesz + 3u) & ~3u) + ((note->n_descsz + 3u) & ~3u);
        if (size > n) {
            return;
        }
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4) {
            read_note(note);
            return;
        }
        p += size;
        n -= size;
    }
}

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_NOTE) {
            // the loader gives the address as a number
            read_segment((const char *)(info->dlpi_addr + ph->p_vaddr), ph->p_memsz);
        }
    }
    return 1; // the first object is the program itself
}

const char *build_id(void)
{
    if (hex[0] == '\0') {
        dl_iterate_phdr(on_object, NULL);
    }
    return hex[0] != '\0' ? hex : "unknown";
}
