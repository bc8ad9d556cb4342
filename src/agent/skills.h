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
    struct str file; // absolute, where it was read; of a plugin's empty
    struct str path; // of the project's: relative to its root; else empty
    char hash[80];   // of the project's, for trust; else empty
};

/// What looks like a skill and is none.
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

/// Read a skill: `+++` TOML or `---` with `key: value` lines in front, or neither; `name` is what it is
/// called when it does not say. A front that is not closed or not TOML, and a name with control characters,
/// are ERR_PARSE. What is returned points into `text` and `a`.
int skill_parse(struct skill *out, struct str text, struct str name, struct arena *a,
                struct err *e) MUST_CHECK;

/// Add the skills of a directory: NAME.md and NAME/SKILL.md. With `hashed` path and hash are filled in,
/// the path being `prefix`/NAME. What cannot be read is a fault. A missing directory has none.
void skills_read(struct skills *s, const char *dir, const char *prefix, bool hashed);

/// Add the skill whose text is `bytes`; `name` is what it is called when it does not say, `file` is where it is
/// from. False, and a fault, when it is none.
bool skills_add(struct skills *s, const char *file, struct str name, struct str bytes);
/// Note that the skills of `file` cannot be read, and why.
void skills_add_fault(struct skills *s, const char *file, const char *message);

struct tree;
/// Add the skills below `under` ("skills/") in a tree that was read from `root`, without path and hash.
void skills_read_tree(struct skills *s, const struct tree *t, const char *root, const char *under);

/// Add the skills that come with the program, those without one of their name in the list; `file` is empty.
void skills_add_shipped(struct skills *s);

/// The first of that name; NULL when there is none.
const struct skill *skills_find(const struct skills *s, struct str name);
