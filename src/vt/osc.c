// Operating system commands (OSC): what a program tells its terminal apart from the screen.
//
// Obeyed are the title (0, 2), the directory (7), notifications (9, 777) and the marks of a shell's
// prompt (133). Other terminals get the title and links (8), cleaned. All else ends here: the clipboard
// (52), colours and every question, whose answer would be typed into whatever runs now.

#include "base/path.h"
#include "base/url.h"
#include "base/utf8.h"
#include "vt/vt_int.h"

/// `text` without control characters, cut at VT_NAME_MAX.
static void clean_text(struct str text, char out[VT_NAME_MAX + 1])
{
    size_t n = 0;
    while (text.n != 0) {
        uint32_t point;
        size_t len = utf8_decode(text, &point);
        bool control = point < ' ' || (point >= 127 && point < 160);
        if (!control && point != 0xfffd && n + len <= VT_NAME_MAX) {
            memcpy(out + n, text.p, len);
            n += len;
        }
        text = str_from(text, len);
    }
    out[n] = '\0';
}

static void on_title(struct vt *v, struct str body, struct buf *clean)
{
    char title[VT_NAME_MAX + 1];
    clean_text(body, title);
    if (clean != NULL) {
        buf_addf(clean, "\033]2;%s\033\\", title);
    }
    if (strcmp(title, v->title) != 0) {
        memcpy(v->title, title, sizeof title);
        if (v->cb.title != NULL) {
            v->cb.title(str_of(v->title), v->arg);
        }
    }
}

static void on_directory(struct vt *v, struct str body, struct buf *clean)
{
    struct buf path = {.max = VT_NAME_MAX};
    char text[VT_NAME_MAX + 1];
    (void)clean;
    if (str_starts(body, "file://")) {
        body = str_from(body, 7);
        ptrdiff_t slash = str_index(body, '/');
        body = slash < 0 ? STR_NULL : str_from(body, (size_t)slash);
    }
    url_decode(&path, body, false);
    clean_text(buf_str(&path), text);
    bool good = path.n != 0 && buf_ok(&path) && text[0] == '/' && strlen(text) == path.n;
    buf_fini(&path);
    if (good && strcmp(text, v->directory) != 0) {
        memcpy(v->directory, text, sizeof text);
        if (v->cb.directory != NULL) {
            v->cb.directory(str_of(v->directory), v->arg);
        }
    }
}

/// Links lead where a terminal's user may click: only to schemes that are no command.
static void on_link(struct vt *v, struct str body, struct buf *clean)
{
    static const char *const schemes[] = {"http://", "https://", "mailto:", "file:///"};
    struct str url = body;
    bool good = utf8_valid(body);
    (void)v;
    str_cut(&url, ';');
    bool known = url.n == 0;
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        known |= str_starts(url, schemes[i]);
    }
    for (size_t i = 0; i < body.n; i++) {
        good &= (unsigned char)body.p[i] >= ' ' && body.p[i] != 127 &&
                (unsigned char)body.p[i] != 0xc2; // C1 as UTF-8 begins so
    }
    if (clean != NULL) {
        buf_addz(clean, "\033]8;");
        buf_adds(clean, good && known ? body : STR(";"));
        buf_addz(clean, "\033\\");
    }
}

static void notify(struct vt *v, struct str title, struct str body)
{
    char t[VT_NAME_MAX + 1], b[VT_NAME_MAX + 1];
    clean_text(title, t);
    clean_text(body, b);
    if (v->cb.notify != NULL && (t[0] != '\0' || b[0] != '\0')) {
        v->cb.notify(str_of(t), str_of(b), v->arg);
    }
}

static void on_notify(struct vt *v, struct str body, struct buf *clean)
{
    (void)clean;
    if (!str_starts(body, "4;")) { // progress
        notify(v, STR_NULL, body);
    }
}

static void on_notify_777(struct vt *v, struct str body, struct buf *clean)
{
    (void)clean;
    if (str_eqz(str_cut(&body, ';'), "notify")) {
        struct str title = str_cut(&body, ';');
        notify(v, title, body);
    }
}

static void on_mark(struct vt *v, struct str body, struct buf *clean)
{
    int64_t status = -1;
    struct str kind = str_cut(&body, ';');
    (void)clean;
    if (kind.n != 1 || strchr("ABCD", kind.p[0]) == NULL) {
        return;
    }
    if (kind.p[0] == 'A') {
        v->on->rows[v->pos.row].mark = true;
    }
    if (!str_to_i64(str_cut(&body, ';'), &status) || status < 0 || status > 255) {
        status = -1;
    }
    if (v->cb.mark != NULL) {
        v->cb.mark(kind.p[0], (int)status, v->arg);
    }
}

static const struct {
    const char *number;
    void (*obey)(struct vt *v, struct str body, struct buf *clean);
} commands[] = {
    {"0", on_title},  {"2", on_title},  {"7", on_directory},    {"8", on_link},
    {"9", on_notify}, {"133", on_mark}, {"777", on_notify_777},
};

void vt__on_osc(struct vt *v, struct str body, struct buf *clean)
{
    struct str number = str_cut(&body, ';');
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (str_eqz(number, commands[i].number)) {
            commands[i].obey(v, body, clean);
        }
    }
}
