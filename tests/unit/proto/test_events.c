#include "proto/events.h"
#include "unit/test.h"

static bool matches(const char *patterns, const char *type)
{
    return event_type_matches(str_of(patterns), str_of(type));
}

TEST(type_patterns_match_whole_types)
{
    CHECK(matches("", "hub.started"));
    CHECK(matches("  ", "hub.started"));
    CHECK(matches("hub.started", "hub.started"));
    CHECK(matches("plugin.*,hub.*", "hub.started"));
    CHECK(matches("plugin.*, hub.started", "hub.started"));
    CHECK(matches("*.started", "hub.started"));
    CHECK(!matches("hub", "hub.started"));
    CHECK(!matches("hub.startedx", "hub.started"));
    CHECK(!matches("plugin.*,turn.completed", "hub.started"));
    CHECK(!matches(",", "hub.started"));
}

TEST(user_types_are_told_from_the_hubs_own)
{
    static const char *const good[] = {"user.x", "user.a.b-c_9", "user.deploy"};
    static const char *const bad[] = {"user.",      "user",       "hub.started", "USER.x",
                                      "user.Ä",     "user.x y",   "user.\n",     "xuser.x",
                                      "user.x\"}{", "user.Deploy"};
    char longest[65], longer[66];
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CHECK(event_type_is_user(str_of(good[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK(!event_type_is_user(str_of(bad[i])));
    }
    CHECK(!event_type_is_user((struct str){"user.a\0b", 8}));
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "user.", 5);
    memcpy(longest, longer, sizeof longest);
    longest[64] = longer[65] = '\0';
    CHECK(event_type_is_user(str_of(longest)));
    CHECK(!event_type_is_user(str_of(longer)));
}

TEST(every_event_has_a_type_and_a_text_of_its_own)
{
    for (size_t i = 0; i < EVENT__COUNT; i++) {
        CHECK(event_infos[i].type[0] != '\0' && event_infos[i].help[0] != '\0');
        CHECK(!event_type_is_user(str_of(event_infos[i].type)));
        for (size_t j = 0; j < i; j++) {
            CHECK(strcmp(event_infos[i].type, event_infos[j].type) != 0);
        }
    }
}
