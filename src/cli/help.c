// Help, for people and (--json) for programs, all of it from the tables.

#include "base/json.h"
#include "cli/cli_int.h"
#include "proto/ops.h"

// ---- for people ----------------------------------------------------------------------------

static char *usage_of(const struct command *row)
{
    return xasprintf("afloat %s%s%s%s%s", row->noun, row->verb[0] != '\0' ? " " : "", row->verb,
                     row->args[0] != '\0' ? " " : "", row->args);
}

static void add_flags(struct table *t, const struct command *row)
{
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        const struct flag *f = &flags[i];
        bool wanted = row != NULL ? !f->global && command_takes(row, (enum flag_id)i) : f->global;
        if (wanted) {
            char letter[8] = "";
            if (f->letter != 0) {
                snprintf(letter, sizeof letter, "-%c, ", f->letter);
            }
            table_addf(t, "  %s--%s%s%s", letter, f->name, f->value != NULL ? " " : "",
                       f->value != NULL ? f->value : "");
            table_add(t, OUT_PLAIN, str_of(f->help));
        }
    }
}

static void print_flags(struct out *o, const struct command *row, const char *title)
{
    struct table t;
    table_init(&t, 2);
    add_flags(&t, row);
    if (t.cells.n != 0) {
        out_addf(o, "\n%s\n", title);
        table_print(&t, o);
    }
    table_fini(&t);
}

static void print_aliases(struct out *o, const struct command *row)
{
    const char *gap = row->verb[0] != '\0' ? " " : "";
    const char *before = "\nAlso: ";
    if (row->other != NULL) {
        out_addf(o, "%s%s%s%s", before, row->other, gap, row->verb);
        before = ", ";
    }
    for (size_t i = 0; i < n_verb_aliases; i++) {
        const char *alias = verb_aliases[i].alias;
        if (strcmp(verb_aliases[i].verb, row->verb) == 0 &&
            command_find_verb(command_find_noun(str_of(row->noun)), str_of(alias)) == row) {
            out_addf(o, "%s%s %s", before, row->noun, alias);
            before = ", ";
        }
    }
    if ((row->mode & CMD_DEFAULT) != 0) {
        bool subject = (row->mode & CMD_SUBJECT) != 0; // which may stand before every verb
        out_addf(o, "%s%s%s%s", before, row->noun, subject ? " " : "", subject ? row->args : "");
        before = ", ";
    }
    if (before[0] == ',') {
        out_add(o, STR("\n"));
    }
}

static void print_examples(struct out *o, const struct command *row)
{
    struct str rest = str_of(row->examples);
    out_add(o, STR("\nExamples:\n"));
    while (rest.n != 0) {
        struct str line = str_cut(&rest, '\n');
        out_addf(o, "  " STR_FMT "\n", STR_ARG(line));
    }
}

static void print_command(struct out *o, const struct command *row)
{
    char *usage = usage_of(row);
    out_addf(o, "%s%s\n  %s\n", usage, row->flags != 0 ? " [FLAGS]" : "", row->help);
    free(usage);
    print_aliases(o, row);
    print_flags(o, row, "Flags:");
    print_examples(o, row);
}

static void print_noun(struct out *o, const struct command *first)
{
    for (const struct command *c = first; c != NULL; c = command_next_verb(c)) {
        if (c != first) {
            out_add(o, STR("\n"));
        }
        print_command(o, c);
    }
}

static void print_overview(struct out *o)
{
    struct table t;
    out_add(o, STR("afloat: a workbench for AI agents whose every plank can be replaced while it "
                   "sails\n\nUsage: afloat COMMAND [ARGUMENTS] [FLAGS]\n\nCommands:\n"));
    table_init(&t, 2);
    for (size_t i = 0; i < n_commands; i++) {
        char *usage = usage_of(&commands[i]);
        table_addf(&t, "  %s", usage + strlen("afloat "));
        table_add(&t, OUT_PLAIN, str_of(commands[i].help));
        free(usage);
    }
    table_print(&t, o);
    table_fini(&t);
    print_flags(o, NULL, "Flags that every command takes:");
    out_add(o, STR("\n'afloat help COMMAND' shows its flags and examples; 'afloat demo' shows what "
                   "it can do.\n"));
}

void help__print(struct out *o, const struct command *row, bool all_verbs)
{
    if (row == NULL) {
        print_overview(o);
        return;
    }
    if (all_verbs) {
        print_noun(o, row);
    } else {
        print_command(o, row);
    }
    print_flags(o, NULL, "Flags that every command takes:");
}

// ---- for programs --------------------------------------------------------------------------

static void write_lines(struct jw *w, const char *key, const char *lines)
{
    struct str rest = str_of(lines);
    jw_key(w, key);
    jw_arr(w);
    while (rest.n != 0) {
        jw_str(w, str_cut(&rest, '\n'));
    }
    jw_end_arr(w);
}

static void write_command(struct jw *w, const struct command *row)
{
    jw_obj(w);
    jw_kstrz(w, "noun", row->noun);
    jw_kstrz(w, "other", row->other);
    jw_kstrz(w, "verb", row->verb[0] != '\0' ? row->verb : NULL);
    jw_kbool(w, "default", (row->mode & CMD_DEFAULT) != 0);
    jw_kbool(w, "starts_hub", (row->mode & CMD_STARTS) != 0);
    jw_kstrz(w, "operation", row->op >= 0 ? ops[row->op].name : NULL);
    jw_kstrz(w, "arguments", row->args);
    jw_key(w, "flags");
    jw_arr(w);
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        if (!flags[i].global && command_takes(row, (enum flag_id)i)) {
            jw_strz(w, flags[i].name);
        }
    }
    jw_end_arr(w);
    jw_kstrz(w, "help", row->help);
    write_lines(w, "examples", row->examples);
    jw_end_obj(w);
}

static void write_flag(struct jw *w, const struct flag *f)
{
    jw_obj(w);
    jw_kstrz(w, "name", f->name);
    jw_kstr(w, "letter", (struct str){&f->letter, f->letter != 0});
    jw_kstrz(w, "value", f->value);
    jw_kbool(w, "global", f->global);
    jw_kstrz(w, "help", f->help);
    jw_end_obj(w);
}

static void write_aliases(struct jw *w)
{
    jw_key(w, "verb_aliases");
    jw_arr(w);
    for (size_t i = 0; i < n_verb_aliases; i++) {
        jw_obj(w);
        jw_kstrz(w, "verb", verb_aliases[i].verb);
        jw_kstrz(w, "alias", verb_aliases[i].alias);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

static void print_json(struct out *o)
{
    struct jw w;
    jw_init(&w, &o->data);
    jw_obj(&w);
    jw_key(&w, "commands");
    jw_arr(&w);
    for (size_t i = 0; i < n_commands; i++) {
        write_command(&w, &commands[i]);
    }
    jw_end_arr(&w);
    jw_key(&w, "flags");
    jw_arr(&w);
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        write_flag(&w, &flags[i]);
    }
    jw_end_arr(&w);
    write_aliases(&w);
    jw_end_obj(&w);
    out_add(o, STR("\n"));
}

// ---- the command ---------------------------------------------------------------------------

// Let the grammar find what is meant, so that aliases and typos are treated as everywhere else.
static int help_for(struct cli *c)
{
    const char *verb = args_word(&c->args, 1);
    char name[] = "afloat", help[] = "--help";
    char *noun = xstrdup(args_word(&c->args, 0)), *second = verb != NULL ? xstrdup(verb) : NULL;
    char *argv[] = {name, help, noun, second, NULL};
    struct args about;
    struct err e;
    int rc = args_parse(&about, verb != NULL ? 4 : 3, argv, &e);
    if (rc == 0) {
        help__print(&c->out, about.cmd, about.only_noun);
    }
    args_fini(&about);
    free(noun);
    free(second);
    return rc < 0 ? cli__fail(c, &e) : EXIT_OK;
}

int cmd_help(struct cli *c)
{
    if (c->json) {
        print_json(&c->out);
        return EXIT_OK;
    }
    if (args_word(&c->args, 0) != NULL) {
        return help_for(c);
    }
    help__print(&c->out, NULL, false);
    return EXIT_OK;
}
