// afloat-keep: `afloat keep` as a small static program (meson.build).

#include "keep/keeper.h"

int main(int argc, char **argv)
{
    (void)argv;
    return keeper_main(argc > 1);
}
