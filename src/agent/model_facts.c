// What is known of models.
//
// The list is short on purpose: families of models whose context has not changed within the family. A model
// that is not in it has no known context, so nothing is said of how full it is and a conversation becomes
// shorter only when the provider refuses it. It is taken to accept pictures: its provider will tell.

#include "agent/model_facts.h"

#include <string.h>

static const struct {
    const char *start; // of the name, behind its last slash; the first that fits counts
    struct model_facts facts;
} known[] = {
    {"claude-", {200000, true}},  {"gpt-5", {400000, true}},      {"gpt-4.1", {1047576, true}},
    {"gpt-4o", {128000, true}},   {"chatgpt-4o", {128000, true}}, {"gpt-4-turbo", {128000, true}},
    {"gpt-4", {8192, false}},     {"gpt-3.5", {16385, false}},    {"o1", {200000, true}},
    {"o3-mini", {200000, false}}, {"o3", {200000, true}},         {"o4-mini", {200000, true}},
};

struct model_facts model_facts(const struct config *c, const char *model)
{
    const char *slash = strrchr(model, '/'), *name = slash != NULL ? slash + 1 : model;
    const struct config_entry *context = config_find_named(c, "models.*.context", model);
    const struct config_entry *images = config_find_named(c, "models.*.images", model);
    struct model_facts f = {.images = true};
    size_t i = 0;
    while (i < ARRAY_LEN(known) && !str_starts(str_of(name), known[i].start)) {
        i++;
    }
    f = i < ARRAY_LEN(known) ? known[i].facts : f;
    f.context = context != NULL ? json_int(context->value, f.context) : f.context;
    f.images = images != NULL ? json_bool(images->value, f.images) : f.images;
    return f;
}
