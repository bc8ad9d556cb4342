// Web pages: whatever comes in, Markdown is UTF-8 if the page was, holds no control character but line
// feeds, and is not much longer than the page.

#include <assert.h>

#include "base/html.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct url page;
    struct buf out;
    if (size > 16384) {
        return 0;
    }
    buf_init(&out, SIZE_MAX);
    bool is_url = url_parse(&page, STR("https://example.org/docs/page.html?x=1"));
    assert(is_url);
    html_to_markdown(&out, text, size % 2 != 0 ? &page : NULL);
    struct str rest = buf_str(&out);
    assert(rest.n <= 60 * size + 8);
    assert(!utf8_valid(text) || utf8_valid(rest));
    for (size_t i = 0; i < rest.n; i++) {
        unsigned char c = (unsigned char)rest.p[i];
        assert(c == '\n' || (c >= ' ' && c != 0x7F));
    }
    if (size < 2048 && url_parse(&page, text)) { // an address is also a place for links
        buf_clear(&out);
        url_join(&out, &page, STR("../x"));
        struct url again;
        assert(url_parse(&again, buf_str(&out)) && str_eq(again.host, page.host));
    }
    buf_fini(&out);
    return 0;
}
