#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/shipped.h"

// Templates: files that come with the program, for users to begin with. templates.def names them,
// runtime/templates/<name>/ holds the files of each, and their paths say where they are installed.

struct template
{
    const char *name;
    bool project;   // its files belong into a project, else into AFLOAT_HOME
    const char *as; // the default for NAME and @NAME@; NULL: the template has neither
    const char *description;
    const char *next; // what to type after it, one command a line; @NAME@ as in files
};

/// Template number `i`; NULL past the last.
const struct template *template_at(size_t i);
/// NULL when there is none of that name.
const struct template *template_find(struct str name);

/// File number `i` of a template; NULL past the last.
const struct shipped *template_file(const struct template *t, size_t i);
/// Where a file goes, below the root that it is installed in. `as` is NULL exactly when `t->as` is. Caller frees.
char *template_path(const struct template *t, const struct shipped *f, const char *as);
/// Append `text` with the chosen name in it: @NAME@, and @TOOL@ for the same with '_' in place of '-'.
void template_fill(struct buf *out, struct str text, const char *as);

/// Install all files of a template below the directory `root`, or none of them. A file that exists is
/// ERR_CONFLICT, unless `trash` (a directory on the same file system that need not exist) is given: then it is
/// moved there first. A plugin of the same name in another form is ERR_CONFLICT in any case, a symbolic link
/// in a project ERR_DENIED. Blocks; on any thread.
int template_install(const struct template *t, const char *as, const char *root, const char *trash,
                     struct err *e) MUST_CHECK;
