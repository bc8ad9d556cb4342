#pragma once

#include "agent/model_facts.h"
#include "agent/provider.h"
#include "config/config.h"

// The providers as a whole: the service that calls run on; the provider, the model and the key of a
// session; lists of providers and models. Call all but provider_cost() on the loop thread.

struct http_client;
struct provider_kind; // agent/provider_int.h

/// `client` is borrowed until providers_close().
struct providers *providers_open(struct loop *l, struct http_client *client);
/// Calls under way must be over or cancelled first (asserted); before the client closes. NULL is
/// allowed.
void providers_close(struct providers *s);

struct gen_engine;
struct gen_unit;

/// The providers of plugins: those of the engine's current generation whose unit applies in a directory.
struct provider_offers {
    struct gen_engine *engine; // NULL: none
    bool (*reaches)(void *arg, const struct gen_unit *u, const char *dir);
    void *arg;
};
/// Set them, before the first choice; borrowed until providers_close().
void providers_set_offers(struct providers *s, const struct provider_offers *offers);

// ---- choosing -------------------------------------------------------------------------------

/// USD per million tokens, from [prices] alone; NAN is unknown.
struct provider_prices {
    double input, cached, output;
};

/// The caller's storage, ended with provider_choice_fini(). Members are read-only.
struct provider_choice {
    char *provider; // its name: "openai", "work"
    char *kind;     // "openai-responses", "openai-chat", "anthropic", "scripted", "plugin"
    char *model;
    char *base_url; // without a slash at the end; NULL for scripted
    char *scenario; // absolute path; NULL: the built-in one; of scripted only
    bool fallback;  // the scripted model was not asked for: the client must say so
    struct retry_policy retry;
    struct provider_prices prices;
    struct model_facts facts;
    // private to agent/
    const struct provider_kind *impl;
    char *dir;        // of the wish's cwd, for providers of a project's plugins; NULL: none
    char *key;        // NULL: none
    char *key_file;   // where it came from, to be read again when it is refused; NULL: elsewhere
    char *key_secret; // the same, a name in `secrets`
    char *secrets;
};

/// What a session asks for. Everything is borrowed for the call.
struct provider_wish {
    const char *provider;   // NULL or "": not named
    const char *model;      // the same; "PROVIDER/MODEL" names both, if there is such a provider
    const char *const *env; // the client's "NAME=value", NULL at the end; NULL: none
    const char *cwd; // the client's directory, for a relative AFLOAT_SCENARIO; NULL: refuse one
    const struct home *home;         // for paths of settings and secrets; never NULL
    const struct providers *service; // for the providers of plugins; NULL: settings only
    bool any_model;                  // no model is asked, so none need be named
};

/// Choose provider, model and key. The provider is that of the wish, else AFLOAT_PROVIDER of its environment, else
/// model.provider, else the first of `openai` and `anthropic` whose key is found, else `scripted` with `fallback` set.
/// The model likewise: wish, AFLOAT_MODEL, model.name (unless it was set for another provider), the provider's own
/// `model`. Keys are never taken from the hub's environment. Reads at most one small file (the key's).
/// ERR_NOT_FOUND for an unknown provider (with the nearest name), no model or no key; ERR_INVALID,
/// ERR_DENIED for settings or key files that cannot be used. No message holds a key.
int providers_resolve(struct provider_choice *ch, const struct config *c,
                      const struct provider_wish *wish, struct err *e) MUST_CHECK;
/// The key, for engine/gateway.c, which sends requests itself; NULL: none. Borrowed, and a secret.
const char *provider_choice_key(const struct provider_choice *choice);
/// Free what it holds; the key is wiped.
void provider_choice_fini(struct provider_choice *choice);

/// The cost of `u` in USD; NAN when a price or number that it needs is unknown.
double provider_cost(const struct provider_choice *choice, const struct provider_usage *u);

/// Is there a provider of that name, in the settings or of a plugin that applies in `dir` (NULL: everywhere)? `s` may be
/// NULL.
bool providers_has(const struct providers *s, const struct config *c, struct str name,
                   const char *dir);
/// Names, borrowed until the loop turns. The caller ends the list with vec_fini().
struct provider_names {
    const char **p;
    size_t n, cap;
};
/// List the names of all providers: those of the settings by name, then those of plugins that apply in `dir`.
struct provider_names providers_list(const struct providers *s, const struct config *c,
                                     const char *dir);

/// Does a variable of a client's environment belong to providers and not to tools? AFLOAT_PROVIDER, AFLOAT_MODEL,
/// AFLOAT_SCENARIO and every name in an api_key_env do.
bool providers_owns_variable(const struct config *c, struct str name);

/// Write the rows of `GET /provider`: an array of {name, kind, base_url, model, has_key, needs_key, default}; those of
/// plugins have `plugin` and `models`. `wish` decides about keys and the default as in providers_resolve().
void providers_write_list(struct jw *w, const struct config *c, const struct provider_wish *wish);

// ---- models ---------------------------------------------------------------------------------

/// The models of a provider, sorted by name; or `why`, with `n` 0. Borrowed for the call.
typedef void provider_models_cb(const char *const *names, size_t n,
                                const struct provider_error *why, void *arg);
struct provider_models;

/// Ask `GET models`, once, without retries. `choice` must stay until the callback, which comes
/// exactly once unless cancelled; then the handle is gone.
struct provider_models *provider_models_get(struct providers *s,
                                            const struct provider_choice *choice,
                                            provider_models_cb *cb, void *arg);
/// Cancel it: no callback follows. Not after the callback.
void provider_models_cancel(struct provider_models *m);
