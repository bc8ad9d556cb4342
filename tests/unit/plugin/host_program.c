// What `afloat host lua PATH` does, without the rest of afloat.

#include "host/host.h"

int main(int argc, char **argv)
{
    return argc == 4 ? host_lua_main(argv[3]) : 2;
}
