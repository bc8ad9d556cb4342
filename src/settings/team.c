// [store]: files, or a database that hubs share.
//
// The address may hold a password, so it can be a secret as a whole (url_secret).

#include "settings/team.h"

#include "base/path.h"
#include "config/secrets.h"
#include "fleet/fleet.h"

enum { FILE_MAX = 1024 * 1024 };

/// Does the text of a file of settings, which may have syntax errors, give the store an address?
static bool has_address(struct str text)
{
    bool store = false, address = false;
    while (text.n != 0) {
        struct str line = str_cut(&text, '\n');
        line = str_cut(&line, '#');
        store = store || str_glob(STR("*store*"), line);
        address =
            address || str_glob(STR("*postgres*"), line) || str_glob(STR("*url_secret*"), line);
    }
    return store && address;
}

/// A hub that cannot use its store never falls back to files, also when an error elsewhere in the file hides [store].
static int check_left_out(const struct config *c, struct err *e)
{
    const char *path = config_left_out(c);
    struct buf text = {.max = FILE_MAX};
    int rc = 0;
    if (path != NULL && (path_read(path, &text, NULL) < 0 || has_address(buf_str(&text)))) {
        rc = err_set(e, ERR_INVALID,
                     "'%s' is broken, so its [store] cannot be used; 'afloat config show' names "
                     "the error",
                     path);
    }
    buf_fini(&text);
    return rc;
}

int team_read(struct team *t, const struct config *c, const struct home *home, const char *version,
              struct err *e)
{
    const char *url = config_str(c, "store.url"), *secret = config_str(c, "store.url_secret");
    *t = (struct team){0};
    int rc = check_left_out(c, e);
    if (rc < 0) {
        return rc;
    }
    if (url[0] != '\0' && secret[0] != '\0') {
        return err_set(e, ERR_INVALID, "[store] has both 'url' and 'url_secret': keep one of them");
    }
    if (secret[0] != '\0') {
        rc = secrets_get(home->secrets, secret, &t->url, e);
        if (rc < 0) {
            return err_prefix(e, "[store] url_secret = \"%s\" (`afloat secret set %s` keeps it)",
                              secret, secret);
        }
    } else if (url[0] != '\0') {
        t->url = xstrdup(url);
    }
    t->shared = t->url != NULL;
    t->hub = fleet_hub_name(c, home);
    const char *const *labels = config_strings(c, "store.labels");
    t->store = (struct store_team){.url = t->url,
                                   .hub = t->hub,
                                   .version = version,
                                   .labels = labels,
                                   .n_labels = str_count(labels),
                                   .lease_s = (unsigned)config_int(c, "store.lease_s"),
                                   .keep_days = (unsigned)config_int(c, "store.keep_days")};
    return 0;
}

void team_fini(struct team *t)
{
    free(t->url);
    free(t->hub);
    *t = (struct team){0};
}
