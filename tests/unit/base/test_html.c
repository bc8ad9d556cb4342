#include "base/html.h"
#include "unit/test.h"

static void check(const char *html, const char *markdown)
{
    struct url page;
    struct buf out;
    CHECK(url_parse(&page, STR("https://example.org/docs/page.html")));
    buf_init(&out, SIZE_MAX);
    html_to_markdown(&out, str_of(html), &page);
    CHECK_STR(buf_z(&out), markdown);
    buf_fini(&out);
}

TEST(text_and_blocks)
{
    check("", "");
    check("plain", "plain\n");
    check("  a \n\t b  ", "a b\n");
    check("<p>one</p><p>two</p>", "one\n\ntwo\n");
    check("<div><div><div>deep</div></div></div>next", "deep\n\nnext\n");
    check("one<br>two<br/>three", "one\ntwo\nthree\n");
    check("<h1>Top</h1>text<H2 class=x>Sub</H2>more", "# Top\n\ntext\n\n## Sub\n\nmore\n");
    check("a<hr>b", "a\n\n---\n\nb\n");
    check("<!doctype html><html><head><title> The\n title </title></head><body><p>x</body>",
          "# The title\n\nx\n");
    check("<blockquote><p>said</p><p>twice</p></blockquote>end", "> said\n\n> twice\n\nend\n");
}

TEST(lists)
{
    check("<ul><li>a<li>b</ul>after", "- a\n- b\n\nafter\n");
    check("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b\n");
    check("<ul><li>a<ol><li>x</li><li>y</li></ol></li><li>b</li></ul>",
          "- a\n  1. x\n  2. y\n- b\n");
    check("<ul><li><p>a</p><p>more</p></li></ul>", "- a\n  more\n");
}

TEST(marks_and_links)
{
    check("a <b>bold</b> and <em>thin</em> <code>x()</code>", "a **bold** and *thin* `x()`\n");
    check("<a href=\"next.html\">next</a>", "[next](https://example.org/docs/next.html)\n");
    check("<a href='https://x.org/?a=1&amp;b=2'>x</a>", "[x](https://x.org/?a=1&b=2)\n");
    check("<a href=\"#here\">here</a> <a name=x>there</a>", "here there\n");
    check("<a href=\"javascript:alert(1)\">no</a>", "no\n");
    check("<a href=\"/a (b)\">x</a>", "[x](https://example.org/a%20%28b%29)\n");
    check("x<b></b><a href=/y> </a>y", "xy\n");
    check("<b><i>both</b> after", "***both*** after\n");
    check("<p>never <b>closed<p>next", "never **closed**\n\nnext\n");
    check("<img src=\"a.png\" alt=\"A &amp; B\"> <img src=b.png>",
          "![A & B](https://example.org/docs/a.png)\n");
}

TEST(code_keeps_its_lines)
{
    check("<pre>\nint x;\n\n  y();\n</pre>done", "```\nint x;\n\n  y();\n```\n\ndone\n");
    check("<pre><code>a &lt; <b>b</b></code></pre>", "```\na < b\n```\n");
    check("<pre>open", "```\nopen\n```\n");
}

TEST(tables)
{
    check("<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td><p>2</p></td></tr></table>end",
          "| A | B |\n|---|---|\n| 1 | 2 |\n\nend\n");
    check("<table><tr><td>1<td>2<tr><td>3<td>4</table>", "| 1 | 2 |\n|---|---|\n| 3 | 4 |\n");
}

TEST(what_is_no_text_is_left_out)
{
    check("a<script>if (x < 1) { document.write('<p>no</p>'); }</script>b", "ab\n");
    check("a<style>p > b { x: y }</STYLE >b", "ab\n");
    check("a<!-- <p>no</p> -->b<?php x ?>c", "abc\n");
    check("a<svg><text>no</text></svg><button>no</button>b", "ab\n");
    check("a<script>never ends", "a\n");
    check("a<!-- never ends", "a\n");
}

TEST(characters)
{
    check("&lt;p&gt; &amp;amp; &copy; &#8364; &#x20AC; &nbsp;x",
          "<p> &amp; \u00a9 \u20ac \u20ac x\n");
    check("&nosuch; & &; &#; &#xZZ; a&b", "&nosuch; & &; &#; &#xZZ; a&b\n");
    check("&#0;&#27;[31m&#x1F;&#xD800;&#x110000;&#133;",
          "\uFFFD\uFFFD[31m\uFFFD\uFFFD\uFFFD\uFFFD\n");
    check("a\x1b[31mb\x07 \xC2\x9B"
          "c\x7f",
          "a [31mb c\n");
    check("1 < 2 <3 <> </> <", "1 < 2 <3 <> </> <\n");
}

TEST(a_page_of_tags_alone_stays_small_and_quick)
{
    static const char *const parts[] = {
        "<ul>",  "<blockquote>", "<b>",  "<a href=x>", "<pre>\n", "<table>", "<td>",
        "</td>", "<li>",         "<br>", "&#x41;",     "<svg",    "<p x='",  "<!--"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct buf html, out;
        buf_init(&html, SIZE_MAX);
        buf_init(&out, SIZE_MAX);
        while (html.n < 1 << 20) {
            buf_addz(&html, parts[i]);
        }
        html_to_markdown(&out, buf_str(&html), NULL);
        CHECK(out.n <= 17U << 20);
        buf_fini(&html);
        buf_fini(&out);
    }
}
