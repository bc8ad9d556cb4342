#include "greeting.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *greet(struct afloat_call *c, const char *name, char *out, size_t n)
{
    const char *loud = afloat_ask(c, "flag.get", "{\"name\": \"loud\"}");
    snprintf(out, n, "Hello, %s!", name != NULL ? name : "world");
    for (char *p = out; loud != NULL && strcmp(loud, "true") == 0 && *p != '\0'; p++) {
        *p = (char)toupper((unsigned char)*p);
    }
    return out;
}
