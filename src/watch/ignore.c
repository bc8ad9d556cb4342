// Ignore rules; see ignore.h for what they mean.

#include "watch/ignore.h"

#include "base/path.h"

const char *const watch_ignore_default[] = {
    ".git/", ".hg/", ".svn/", "node_modules/", "*.swp", "*.swx", "*~", ".#*", "4913", NULL,
};

static bool rule_fits(struct str rule, struct str rel, bool is_dir)
{
    bool dirs_only = str_ends(rule, "/");
    rule.n -= dirs_only;
    if (dirs_only && !is_dir) {
        return false;
    }
    if (str_index(rule, '/') < 0) {
        return str_glob(rule, path_base(rel));
    }
    return str_glob(str_starts(rule, "/") ? str_from(rule, 1) : rule, rel);
}

bool ignore_match(const char *const *rules, struct str rel, bool is_dir)
{
    bool ignored = false;
    for (; *rules != NULL; rules++) {
        struct str rule = str_of(*rules);
        bool negated = str_starts(rule, "!");
        if (ignored == negated && rule_fits(str_from(rule, negated), rel, is_dir)) {
            ignored = !negated;
        }
    }
    return ignored;
}
