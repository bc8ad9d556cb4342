#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/shipped.h"
#include "base/vec.h"

// Skills: Markdown with a name, a line that says what it is for, and a body that is read when needed.
// Plain memory; reading blocks and belongs on a lane.

extern const struct shipped shipped_skills[]; // runtime/skills

enum { SKILLS_MAX = 256, SKILL_BYTES = 256 * 1024 };

struct skill {
    struct str name, description, body;
    struct str file; // the absolute path of its file; empty for a skill of a plugin
    // of a skill of a project, else empty:
    struct str path; // relative to the project's root
    char hash[80];   // what the user trusts
    bool foreign;    // another user owns or may write a part of it
};

/// A file that should be a skill and cannot be used.
struct skill_fault {
    struct str file, message;
};

/// All strings are in the arena. The caller's storage.
struct skills {
    struct arena arena;
    vec(struct skill) list;
    vec(struct skill_fault) faults;
};
/// An empty list; ended with skills_fini().
void skills_init(struct skills *s);
/// Free the list and its arena: texts of skills go with it.
void skills_fini(struct skills *s);

/// Read a skill: it begins with `+++` TOML, with `---` and `key: value` lines, or with neither; `name` is its name
/// if it gives none. ERR_PARSE: the front is not closed or not TOML, or the name has control characters. The
/// result points into `text` and `a`.
int skill_parse(struct skill *out, struct str text, struct str name, struct arena *a,
                struct err *e) MUST_CHECK;

/// Add the skills of a directory: NAME.md and NAME/SKILL.md. A file that cannot be read is a fault. A missing directory
/// is an empty one.
void skills_read(struct skills *s, const char *dir);
/// The same for `.afloat/skills` of the project whose root is the real path `root`. What leads out of the project is a
/// fault.
void skills_read_project(struct skills *s, const char *root);

/// Add the skill whose text is `bytes`; `name` is its name if it gives none, `file` is where it was read. False: it
/// was added to the faults.
bool skills_add(struct skills *s, const char *file, struct str name, struct str bytes);
/// Add a fault: `file` cannot be read, and why.
void skills_add_fault(struct skills *s, const char *file, const char *message);

struct tree;
/// Add the skills below `under` ("skills/") in a tree that was read from `root`, without path and hash.
void skills_read_tree(struct skills *s, const struct tree *t, const char *root, const char *under);

/// Add the skills that come with the program, without those whose name is in the list already. Their `file` is empty.
void skills_add_shipped(struct skills *s);

/// The first of that name; NULL when there is none.
const struct skill *skills_find(const struct skills *s, struct str name);
