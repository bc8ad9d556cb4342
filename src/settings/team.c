// [store]: files, or a database that hubs share.
//
// The address may hold a password, so it can be a secret as a whole (url_secret).

#include "settings/team.h"

#include "config/secrets.h"
#include "fleet/fleet.h"

int team_read(struct team *t, const struct config *c, const struct home *home, const char *version,
              struct err *e)
{
    const char *url = config_str(c, "store.url"), *secret = config_str(c, "store.url_secret");
    *t = (struct team){0};
    if (url[0] != '\0' && secret[0] != '\0') {
        return err_set(e, ERR_INVALID, "[store] has both 'url' and 'url_secret': keep one of them");
    }
    if (secret[0] != '\0') {
        int rc = secrets_get(home->secrets, secret, &t->url, e);
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
