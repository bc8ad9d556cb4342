#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "lib/fault.h"
#include "unit/trust/util.h"

// Every wrapped call of one `trust` fails once, one after the other. Each time the file is the old one
// or the new one, whole; one that was told as done is there.

#define PLUGIN ".afloat/plugins/x.lua"

static int trust_now(void)
{
    struct trust *t;
    struct trust_place p;
    struct trust_scan s;
    int rc = trust_place_of(&p, at("home"), at("repo"), NULL);
    if (rc < 0) {
        return rc;
    }
    rc = trust_open(&t, at("home"), NULL);
    int scanned = trust_scan(&s, p.root, NULL);
    if (rc == 0) {
        rc = scanned < 0          ? scanned
             : s.items.n == 0     ? ERR_NOT_FOUND
             : s.items.p[0].error ? ERR_DENIED
                                  : trust_add(t, &p, s.items.p, s.items.n, false, NULL);
    }
    trust_scan_fini(&s);
    trust_close(t);
    trust_place_fini(&p);
    return rc;
}

/// The number of versions of the plugin that the file holds: 1 before, 2 after.
static int versions_known(void)
{
    struct trust *t;
    struct buf b;
    CHECK_INT(trust_open(&t, at("home"), NULL), 0);
    buf_init(&b, SIZE_MAX);
    trust_write(t, &b);
    int n = strstr(buf_z(&b), "\"versions\":2") != NULL   ? 2
            : strstr(buf_z(&b), "\"versions\":1") != NULL ? 1
                                                          : 0;
    buf_fini(&b);
    trust_close(t);
    return n;
}

static unsigned fail_each(int error, bool forever)
{
    unsigned points = 0;
    for (unsigned long n = 1;; n++) {
        put_dir("home");
        put("repo/" PLUGIN, "-- one\n");
        CHECK_INT(trust_now(), 0);
        put("repo/" PLUGIN, "-- two\n");
        fault_at(n, error, forever);
        int rc = trust_now();
        unsigned long hits = fault_hits();
        fault_off();
        int known = versions_known();
        CHECK(known == 1 || known == 2);
        CHECK(rc < 0 || known == 2);
        CHECK(access(at("home/trust.json.lock"), F_OK) == 0);
        CHECK_INT(path_remove_tree(at("home"), NULL), 0);
        CHECK_INT(path_remove_tree(at("repo"), NULL), 0);
        if (hits == 0) {
            CHECK_INT(rc, 0);
            return points;
        }
        points++;
    }
}

TEST(every_failing_call_leaves_the_old_file_or_the_new_one)
{
    static const int errors[] = {EIO, ENOSPC, EACCES};
    unsigned points = 0;
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        points += fail_each(errors[i], false) + fail_each(errors[i], true);
    }
    printf("%u points failed\n", points);
    CHECK(points != 0);
}
