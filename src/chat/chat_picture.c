// Pictures in what is said: `@shot.png`, or the path that a terminal pastes when a file is dropped on it.
//
// A word counts when it ends like a picture and there is such a file; relative ones begin at the session's
// directory. Terminals quote a path or put a backslash before each space, and some paste a file:// address.
// The text goes to the model as it is; the hub reads the files.

#include <limits.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/url.h"
#include "chat/chat_int.h"

enum { MOST = 10 };

/// The next word: quotes and backslashes are taken off. False: there is none.
static bool next_word(struct str *rest, struct buf *word)
{
    size_t i = 0;
    char quote = '\0';
    buf_clear(word);
    while (i < rest->n && (unsigned char)rest->p[i] <= ' ') {
        i++;
    }
    size_t from = i;
    for (; i < rest->n && (quote != '\0' || (unsigned char)rest->p[i] > ' '); i++) {
        char c = rest->p[i];
        if (c == quote) {
            quote = '\0';
        } else if (quote == '\0' && (c == '\'' || c == '"') &&
                   (word->n == 0 || buf_z(word)[0] == '@')) {
            quote = c;
        } else if (c == '\\' && quote != '\'' && i + 1 < rest->n) {
            buf_addc(word, rest->p[++i]);
        } else {
            buf_addc(word, c);
        }
    }
    *rest = str_from(*rest, i);
    return i > from;
}

/// "file:///a%20b" as a path.
static void decode_url(struct buf *word)
{
    struct buf path = {.max = SIZE_MAX};
    url_decode(&path, str_from(buf_str(word), strlen("file://")), false);
    buf_fini(word);
    *word = path;
}

static bool is_picture(struct str name)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg", ".gif", ".webp"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t n = strlen(ends[i]);
        if (name.n > n && strncasecmp(name.p + name.n - n, ends[i], n) == 0) {
            return true;
        }
    }
    return false;
}

/// The real path of the picture that a word names; NULL: it names none. The caller frees it.
static char *find_file(struct chat *t, struct buf *word)
{
    struct stat st;
    bool at = word->n != 0 && word->p[0] == '@';
    if (at) {
        buf_drop(word, 1);
    }
    if (str_starts(buf_str(word), "file:///")) {
        decode_url(word);
    }
    const char *given = buf_z(word);
    bool absolute = given[0] == '/' || (given[0] == '~' && given[1] == '/');
    if (!is_picture(buf_str(word)) || (!at && !absolute) || strlen(given) != word->n) {
        return NULL;
    }
    char *full = absolute ? path_expand_home(given) : path_join(t->gauge.dir, given);
    char *real = full != NULL ? realpath(full, NULL) : NULL;
    free(full);
    if (real != NULL && (stat(real, &st) < 0 || !S_ISREG(st.st_mode))) {
        free(real);
        real = NULL;
    }
    return real;
}

/// The pictures that `text` names, each once; the caller frees the paths.
static size_t find_all(struct chat *t, struct str text, char *found[MOST])
{
    size_t n = 0;
    struct buf word = {.max = SIZE_MAX};
    while (n < MOST && next_word(&text, &word)) {
        char *path = find_file(t, &word);
        bool again = path == NULL;
        for (size_t i = 0; i < n && !again; i++) {
            again = strcmp(found[i], path) == 0;
        }
        if (again) {
            free(path);
        } else {
            found[n++] = path;
        }
    }
    buf_fini(&word);
    return n;
}

bool chat__has_pictures(struct chat *t, struct str text)
{
    char *found[MOST];
    size_t n = find_all(t, text, found);
    for (size_t i = 0; i < n; i++) {
        free(found[i]);
    }
    return n != 0;
}

void chat__write_pictures(struct chat *t, struct str text, struct jw *w)
{
    char *found[MOST];
    size_t n = find_all(t, text, found);
    if (n == 0) {
        return;
    }
    jw_karr(w, "images");
    for (size_t i = 0; i < n; i++) {
        struct str name = path_base(str_of(found[i]));
        jw_strz(w, found[i]);
        out_note(&t->c->out, "picture: " STR_FMT, STR_ARG(name));
        free(found[i]);
    }
    jw_end_arr(w);
}
