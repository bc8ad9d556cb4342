#include "base/folder.h"

struct folder folder_open(const char *path)
{
    return (struct folder){.stream = opendir(path)};
}

bool folder_next(struct folder *f)
{
    while (f->stream != NULL) {
        const struct dirent *entry = readdir(f->stream); // NOLINT(concurrency-mt-unsafe): ours
        if (entry == NULL) {
            folder_close(f);
        } else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            f->name = entry->d_name;
            f->type = entry->d_type;
            return true;
        }
    }
    return false;
}

void folder_close(struct folder *f)
{
    if (f->stream != NULL) {
        closedir(f->stream);
        f->stream = NULL;
    }
}
