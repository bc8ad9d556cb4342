// The date of HTTP headers, independent of the locale.

#include "net/date.h"

#include <time.h>

const char *date_format(int64_t wall_ms, char out[DATE_TEXT])
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm t;
    if (gmtime_r(&seconds, &t) == NULL || t.tm_year < 70 || t.tm_year > 8099) {
        seconds = 0;
        gmtime_r(&seconds, &t);
    }
    snprintf(out, DATE_TEXT, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[t.tm_wday % 7],
             (unsigned)t.tm_mday % 100, months[t.tm_mon % 12], (unsigned)(t.tm_year + 1900) % 10000,
             (unsigned)t.tm_hour % 100, (unsigned)t.tm_min % 100, (unsigned)t.tm_sec % 100);
    return out;
}
