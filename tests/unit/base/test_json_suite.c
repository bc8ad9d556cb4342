// JSONTestSuite: a public collection of texts that a JSON parser must accept (y_), refuse (n_) or
// may decide itself (i_).

#include <dirent.h>

#include "unit/base/json_help.h"

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    char *text = xmalloc(1 << 20);
    *n = fread(text, 1, 1 << 20, f);
    fclose(f);
    return xrealloc(text, *n); // exact, so that ASan sees a read behind the end
}

/// What RFC 8259 leaves open: only these we take.
static bool open_case_is_taken(const char *name)
{
    static const char *const taken[] = {
        "i_number_double_huge_neg_exp.json",   "i_number_real_underflow.json",
        "i_number_too_big_neg_int.json",       "i_number_too_big_pos_int.json",
        "i_number_very_big_negative_int.json",
    };
    for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
        if (strcmp(name, taken[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void check_suite_file(const char *dir, const char *name)
{
    char path[4600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    size_t n;
    char *text = read_file(path, &n);
    struct json_opts last = {.dup = JSON_DUP_LAST};
    bool wanted = name[0] == 'y' || (name[0] == 'i' && open_case_is_taken(name));
    struct json *v;
    struct err e = {0};
    int rc = json_parse(&v, &mem, (struct str){text, n}, &last, &e);
    if ((rc == 0) != wanted) {
        test_fail(__FILE__, __LINE__, "%s: %s", name, rc == 0 ? "accepted" : e.msg);
    }
    rc = json_parse(&v, &mem, (struct str){text, n}, NULL, &e);
    bool twice = strncmp(name, "y_object_duplicated_key", 23) == 0;
    if ((rc == 0) != (wanted && !twice)) {
        test_fail(__FILE__, __LINE__, "%s, strict: %s", name, rc == 0 ? "accepted" : e.msg);
    }
    if (rc == 0) {
        check_same_after_writing(v, 1);
    }
    free(text);
}

TEST(json_test_suite_is_decided_as_it_demands)
{
    char dir[4200];
    const char *data = test_data();
    snprintf(dir, sizeof dir, "%s/json-test-suite/test_parsing", data != NULL ? data : "");
    DIR *d = data != NULL ? opendir(dir) : NULL;
    if (d == NULL) {
        test_skip("JSONTestSuite is not there: set AFLOAT_TEST_DATA to the folder that holds "
                  "json-test-suite/test_parsing");
    }
    int files = 0;
    for (struct dirent *f; (f = readdir(d)) != NULL;) {
        if (strchr("yni", f->d_name[0]) != NULL && f->d_name[1] == '_') {
            check_suite_file(dir, f->d_name);
            files++;
        }
    }
    closedir(d);
    CHECK(files >= 318);
}
