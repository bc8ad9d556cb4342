#include "base/build_id.h"
#include "unit/test.h"

TEST(the_build_id_is_forty_hex_digits)
{
    CHECK_INT(strlen(build_id()), 40);
    CHECK_INT(strspn(build_id(), "0123456789abcdef"), 40);
}
