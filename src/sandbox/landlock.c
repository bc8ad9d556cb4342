// Landlock: from here on only files beneath the policy's trees can be opened.
//
// We handle all that the running kernel knows, so everything is denied but what the trees give.

#include "sandbox/landlock_int.h"
#include "sandbox/policy_int.h"

static uint64_t granted(const struct policy_tree *t)
{
    uint64_t bits = 0;
    if ((t->access & POLICY_READ) != 0) {
        bits |= FS_READ_FILE | FS_READ_DIR;
    }
    if ((t->access & POLICY_WRITE) != 0) { // no links, devices, sockets or pipes
        bits |= FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |
                FS_REFER | FS_TRUNCATE;
    }
    return bits;
}

int policy_landlock_abi(void)
{
    return landlock_abi();
}

int landlock__enter(const struct policy *p, struct err *e)
{
    int abi = landlock_abi();
    if (abi == 0) {
        return err_set(e, ERR_UNSUPPORTED, "the kernel has no Landlock, or it is switched off");
    }
    int ruleset = landlock_create(abi, false);
    if (ruleset < 0) {
        return err_sys(e, "cannot make a Landlock ruleset");
    }
    int rc = 0;
    for (size_t i = 0; i < p->n_trees && rc == 0; i++) {
        if (landlock_grant(ruleset, abi, p->trees[i].dirfd, granted(&p->trees[i])) != 0) {
            rc = err_sys(e, "cannot allow a tree");
        }
    }
    if (rc == 0 && landlock_restrict(ruleset) != 0) {
        rc = err_sys(e, "cannot enter the Landlock ruleset");
    }
    close(ruleset);
    return rc;
}
