// Help, for people and (--json) for programs, all of it from the tables.

#include <assert.h>

#include "cli/ask.h"

// ---- for people ----------------------------------------------------------------------------

static char *usage_of(const struct command *row)
{
    return xasprintf("afloat %s%s%s%s%s", row->noun, row->verb[0] != '\0' ? " " : "", row->verb,
                     row->args[0] != '\0' ? " " : "", row->args);
}

static void add_flag(struct table *t, const struct flag *f, const char *help)
{
    struct str value = flag_value_name(f);
    struct buf choices = {.max = SIZE_MAX};
    char letter[8] = "";
    if (f->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", f->letter);
    }
    flag_add_choices(&choices, f);
    table_addf(t, "  %s--%s%s" STR_FMT, letter, f->name, value.n != 0 ? " " : "", STR_ARG(value));
    table_addf(t, "%s%s%s", help != NULL ? help : f->help, choices.n != 0 ? ": " : "",
               buf_z(&choices));
    buf_fini(&choices);
}

/// The flags of a command, or the global ones when `row` is NULL.
static void print_flags(struct out *o, const struct command *row)
{
    struct table t;
    table_init(&t, 2);
    for (const struct flag_use *f = row != NULL ? row->flags : NULL;
         f != NULL && f->id != FLAG__COUNT; f++) {
        add_flag(&t, &flags[f->id], f->help);
    }
    for (size_t i = 0; i < FLAG__COUNT && row == NULL; i++) {
        if (flags[i].global) {
            add_flag(&t, &flags[i], NULL);
        }
    }
    if (t.cells.n != 0) {
        out_addf(o, "\n%s\n", row != NULL ? "Flags:" : "Flags that every command takes:");
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

static void print_command(struct out *o, const struct command *row)
{
    char *usage = usage_of(row);
    out_addf(o, "%s%s\n  %s\n", usage, row->flags->id != FLAG__COUNT ? " [FLAGS]" : "", row->help);
    free(usage);
    print_aliases(o, row);
    print_flags(o, row);
    out_add(o, STR("\nExamples:\n"));
    for (struct str rest = str_of(row->examples); rest.n != 0;) {
        struct str line = str_cut(&rest, '\n');
        out_addf(o, "  " STR_FMT "\n", STR_ARG(line));
    }
}

static struct str first_example(const struct command *row)
{
    struct str examples = str_of(row->examples);
    return str_cut(&examples, '\n');
}

/// The width of the longest example on the first page, so that all its groups have the same columns.
static size_t examples_width(void)
{
    size_t n = 0;
    for (size_t i = 0; i < n_commands; i++) {
        n = (commands[i].mode & CMD_FIRST) != 0 ? MAX(n, first_example(&commands[i]).n) : n;
    }
    return n;
}

/// The commands of a group: all by their usage, or those of the first page by an example, with the help up to its
/// first semicolon.
static void print_group(struct out *o, enum command_group group, bool all)
{
    assert(group < GROUP__COUNT);
    struct table t;
    size_t width = examples_width();
    table_init(&t, 2);
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *row = &commands[i];
        struct str help = str_of(row->help);
        if (row->group == group && all) {
            char *usage = usage_of(row);
            table_addf(&t, "  %s", usage + strlen("afloat "));
            table_add(&t, OUT_PLAIN, help);
            free(usage);
        } else if (row->group == group && (row->mode & CMD_FIRST) != 0) {
            table_addf(&t, "  %-*.*s", (int)width, (int)first_example(row).n, row->examples);
            table_add(&t, OUT_PLAIN, str_cut(&help, ';'));
        }
    }
    if (t.cells.n != 0) {
        out_addf(o, "\n%s:\n", group_titles[group]);
        table_print(&t, o);
    }
    table_fini(&t);
}

static void print_sentence(struct out *o, const char *text)
{
    struct table t;
    table_init(&t, 1);
    table_add(&t, OUT_PLAIN, str_of(text));
    table_print(&t, o);
    table_fini(&t);
}

void help__print_all(struct out *o, bool all)
{
    print_sentence(o, "afloat: a workbench for AI agents that you change while it runs");
    out_add(o, all ? STR("\nUsage: afloat COMMAND [ARGUMENTS] [FLAGS]\n") : STR(""));
    for (int g = 0; g < GROUP_INNER; g++) {
        print_group(o, (enum command_group)g, all);
    }
    if (all) {
        print_flags(o, NULL);
    }
    out_add(o, STR("\n"));
    print_sentence(o,
                   all ? "'afloat help COMMAND' shows its flags and examples."
                       : "'afloat help --all' lists all commands, 'afloat help COMMAND' explains "
                         "one.");
}

void help__print(struct out *o, const struct command *row, bool all_verbs)
{
    for (const struct command *c = row; c != NULL; c = all_verbs ? command_next_verb(c) : NULL) {
        out_add(o, c != row ? STR("\n") : STR(""));
        print_command(o, c);
    }
    print_flags(o, NULL);
}

// ---- for programs --------------------------------------------------------------------------

// `help`: what it does in this command.
static void write_flag(struct jw *w, const struct flag *f, const char *help)
{
    jw_obj(w);
    jw_kstrz(w, "name", f->name);
    jw_kstr(w, "letter", (struct str){&f->letter, f->letter != 0});
    jw_key(w, "value");
    if (f->value != NULL) {
        jw_str(w, flag_value_name(f));
    } else {
        jw_null(w);
    }
    jw_karr(w, "choices");
    for (struct str rest = flag_choices(f); rest.n != 0;) {
        jw_str(w, str_cut(&rest, '|'));
    }
    jw_end_arr(w);
    jw_kbool(w, "global", f->global);
    jw_kstrz(w, "help", help);
    jw_end_obj(w);
}

static void write_command(struct jw *w, const struct command *row)
{
    jw_obj(w);
    jw_kstrz(w, "group", group_titles[row->group]);
    jw_kstrz(w, "noun", row->noun);
    jw_kstrz(w, "other", row->other);
    jw_ktext(w, "verb", str_of(row->verb));
    jw_kbool(w, "default", (row->mode & CMD_DEFAULT) != 0);
    jw_kbool(w, "starts_hub", (row->mode & CMD_STARTS) != 0);
    jw_kstrz(w, "operation", row->op >= 0 ? ops[row->op].name : NULL);
    jw_kstrz(w, "arguments", row->args);
    jw_karr(w, "flags");
    for (const struct flag_use *f = row->flags; f->id != FLAG__COUNT; f++) {
        jw_strz(w, flags[f->id].name);
    }
    jw_end_arr(w);
    jw_karr(w, "options");
    for (const struct flag_use *f = row->flags; f->id != FLAG__COUNT; f++) {
        write_flag(w, &flags[f->id], f->help != NULL ? f->help : flags[f->id].help);
    }
    jw_end_arr(w);
    jw_kstrz(w, "help", row->help);
    jw_karr(w, "examples");
    for (struct str rest = str_of(row->examples); rest.n != 0;) {
        jw_str(w, str_cut(&rest, '\n'));
    }
    jw_end_arr(w);
    jw_end_obj(w);
}

static void print_json(struct out *o)
{
    struct jw w = {.out = &o->data};
    jw_obj(&w);
    jw_karr(&w, "commands");
    for (size_t i = 0; i < n_commands; i++) {
        write_command(&w, &commands[i]);
    }
    jw_end_arr(&w);
    jw_karr(&w, "groups");
    for (size_t i = 0; i < GROUP__COUNT; i++) {
        jw_strz(&w, group_titles[i]);
    }
    jw_end_arr(&w);
    jw_karr(&w, "flags");
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        write_flag(&w, &flags[i], flags[i].help);
    }
    jw_end_arr(&w);
    jw_karr(&w, "verb_aliases");
    for (size_t i = 0; i < n_verb_aliases; i++) {
        jw_obj(&w);
        jw_kstrz(&w, "verb", verb_aliases[i].verb);
        jw_kstrz(&w, "alias", verb_aliases[i].alias);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
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
    help__print_all(&c->out, args_has(&c->args, FLAG_ALL));
    return EXIT_OK;
}
