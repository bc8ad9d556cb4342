// What is known of models.
//
// The list is short on purpose: families of models, with what their providers document. Where the models of a family
// differ, or a larger context needs a header that we do not send (Claude, 1M), the smaller number is used: a
// conversation that is compacted early is better than one that is refused. A model that is not in the list has
// [limits] context_tokens and is assumed to accept pictures; if it does not, its provider says so. Scripted models have
// no context: nothing reads what they are sent.

#include "agent/model_facts.h"

#include <string.h>

static const struct {
    const char *start; // of the name after its last slash; the first row that fits is used
    struct model_facts facts;
} known[] = {
    {"claude-2.0", {100000, false}},
    {"claude-instant", {100000, false}},
    {"claude-2", {200000, false}},
    {"claude-", {200000, true}},
    {"gpt-5-chat", {128000, true}},
    {"gpt-5.1-chat", {128000, true}},
    {"gpt-5.2-chat", {128000, true}},
    {"gpt-5.3-chat", {128000, true}},
    {"gpt-5.3-codex-spark", {128000, false}},
    {"gpt-5", {400000, true}},
    {"gpt-oss", {131072, false}},
    {"gpt-4.1", {1047576, true}},
    {"gpt-4.5", {128000, true}},
    {"gpt-4o", {128000, true}},
    {"chatgpt-4o", {128000, true}},
    {"gpt-4-turbo", {128000, true}},
    {"gpt-4-1106-preview", {128000, false}},
    {"gpt-4-0125-preview", {128000, false}},
    {"gpt-4-32k", {32768, false}},
    {"gpt-4", {8192, false}},
    {"gpt-3.5", {16385, false}},
    {"o1-mini", {128000, false}},
    {"o1-preview", {128000, false}},
    {"o1", {200000, true}},
    {"o3-mini", {200000, false}},
    {"o3", {200000, true}},
    {"o4-mini", {200000, true}},
    {"codex-mini", {200000, true}},
    {"gemini-2.", {1048576, true}},
    {"gemini-3", {1048576, true}},
};

struct model_facts model_facts(const struct config *c, const char *kind, const char *model)
{
    const char *slash = strrchr(model, '/'), *name = slash != NULL ? slash + 1 : model;
    const struct config_entry *context = config_find_named(c, "models.*.context", model);
    const struct config_entry *images = config_find_named(c, "models.*.images", model);
    bool scripted = strcmp(kind, "scripted") == 0;
    struct model_facts f = {.context = scripted ? 0 : config_int(c, "limits.context_tokens"),
                            .images = true};
    size_t i = 0;
    while (i < ARRAY_LEN(known) && !str_starts(str_of(name), known[i].start)) {
        i++;
    }
    f = i < ARRAY_LEN(known) ? known[i].facts : f;
    f.context = context != NULL ? json_int(context->value, f.context) : f.context;
    f.images = images != NULL ? json_bool(images->value, f.images) : f.images;
    return f;
}
