// Shared objects by dlopen: most runs of the program need neither libcurl nor libpq, nor their dependencies.

#include "base/library.h"

#include <dlfcn.h>

int library_load(void *table, const struct library *l, const char *soname, struct err *e)
{
    void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        return err_set(e, ERR_UNSUPPORTED, "%s needs %s: install %s (cannot load '%s')", l->use,
                       l->name, l->package, soname);
    }
    for (size_t i = 0; i < l->n; i++) {
        void *found = dlsym(lib, l->functions[i].name);
        if (found == NULL) {
            dlclose(lib); // nothing of it ran yet
            return err_set(e, ERR_UNSUPPORTED, "this %s has no '%s': install %s %s or newer",
                           l->name, l->functions[i].name, l->package, l->version);
        }
        memcpy((char *)table + l->functions[i].at, &found, sizeof found);
    }
    return 0;
}
