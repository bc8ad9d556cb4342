// The prompt of an iteration.
//
// Nothing here reads a file or a clock: what goes in decides every byte that comes out, which is what the
// golden tests compare. Texts that others wrote are put where they can be told from ours: what the user
// typed is quoted, memory is a list whose further lines are indented, a summary is one line.

#include "bot/prompt.h"

static void write_status(struct buf *out, const struct bot_prompt *p)
{
    buf_addz(out, "\n## Status\n");
    buf_addf(out, "- Project: %s\n", p->project);
    buf_addf(out, "- Session: %llu\n", (unsigned long long)p->session);
    if (p->branch == NULL) {
        return;
    }
    buf_addf(out, "- Branch: %s (from %s)\n", p->branch, p->base);
    buf_addz(out, "\nYou work in a git worktree of your own on this branch; the user's files are "
                  "elsewhere and stay as they are.\n"
                  "Commit your work here as you go. What is not committed when the run ends is "
                  "committed for you.\n"
                  "When you complete the session, say what should become of the branch:\n"
                  "- `merge`: it is finished and may be taken over\n"
                  "- `review`: a person should look at it first\n"
                  "- `discard`: it is not worth keeping\n");
}

static void write_skills(struct buf *out, const struct bot_prompt *p)
{
    if (p->n_skills == 0) {
        return;
    }
    buf_addz(out, "\n## Available Skills\n");
    for (size_t i = 0; i < p->n_skills; i++) {
        const struct skill *sk = p->skills[i].skill;
        buf_addf(out, "\n### " STR_FMT "\n", STR_ARG(sk->name));
        if (sk->description.n != 0) {
            buf_addf(out, STR_FMT "\n", STR_ARG(sk->description));
        }
        if (sk->body.n != 0) {
            buf_addf(out, "\n" STR_FMT "\n", STR_ARG(sk->body));
        }
    }
}

/// Each line of `text` after `prefix`; the first one after `first`.
static void write_lines(struct buf *out, struct str text, const char *first, const char *prefix)
{
    const char *lead = first;
    while (text.p != NULL) {
        struct str line = str_cut(&text, '\n');
        buf_addz(out, lead);
        buf_adds(out, line.n != 0 && line.p[line.n - 1] == '\r' ? (struct str){line.p, line.n - 1}
                                                                : line);
        buf_addc(out, '\n');
        lead = prefix;
    }
}

static void write_memory(struct buf *out, const struct bot_prompt *p)
{
    if (p->n_memory == 0) {
        return;
    }
    buf_addz(out, "\n## Memory\n");
    for (size_t i = 0; i < p->n_memory; i++) {
        buf_addf(out, "- **" STR_FMT "**: ", STR_ARG(p->memory[i].key));
        struct str text = str_trim(p->memory[i].text);
        write_lines(out, text.n != 0 ? text : STR(""), "", "  ");
    }
}

static void write_input(struct buf *out, const struct bot_prompt *p)
{
    struct str text = str_trim(p->input);
    if (text.n != 0) {
        buf_addz(out, "\n## User Input\n");
        write_lines(out, text, "> ", "> ");
    }
}

static void write_recent(struct buf *out, const struct bot_prompt *p)
{
    size_t n = MIN(p->n_recent, (size_t)BOT_RECENT);
    if (n == 0) {
        return;
    }
    buf_addz(out, "\n### Recent History\n");
    for (size_t i = n; i-- > 0;) {
        buf_addf(out, "- Session %llu: ", (unsigned long long)p->recent[i].number);
        history_write_line(out, p->recent[i].summary, BOT_RECENT_CHARS);
        buf_addc(out, '\n');
    }
}

static void write_instructions(struct buf *out, const struct bot_prompt *p)
{
    buf_addz(out, "\n## Instructions\n");
    buf_addz(out, "You run by yourself: nobody answers questions while you work. Decide, and say "
                  "what you decided.\n"
                  "- When the task is done, or nothing more can be done, call `session_complete` "
                  "with a summary of what you did.\n"
                  "- `session_history` lists earlier sessions and shows one of them, page by page "
                  "from its end.\n"
                  "- `memory` keeps what later sessions should know; what is there is shown "
                  "above.\n");
    if (p->stop_phrase != NULL) {
        buf_addf(out, "- Saying \"%s\" also ends the run.\n", p->stop_phrase);
    }
}

static void write_skills_system(struct buf *out, const struct bot_prompt *p)
{
    buf_addz(out, "\n## Skills System\n");
    buf_addf(out,
             "%zu skill%s loaded; they are read again before each session. Your own are stored in "
             "`%s`, one Markdown file each.\n"
             "When you find a way of doing something that will be needed again, keep it with "
             "`skill_save`: a name, a line that says what it is for, and the steps.\n",
             p->n_skills, p->n_skills == 1 ? " is" : "s are", p->skills_dir);
}

void bot_prompt_write(struct buf *out, const struct bot_prompt *p)
{
    assert(p->instructions != NULL && p->project != NULL && p->skills_dir != NULL);
    struct str instructions = str_trim(str_of(p->instructions));
    buf_addf(out, STR_FMT "\n", STR_ARG(instructions));
    write_status(out, p);
    write_skills(out, p);
    write_memory(out, p);
    write_input(out, p);
    write_recent(out, p);
    write_instructions(out, p);
    write_skills_system(out, p);
}

void bot_prompt_write_chat(struct buf *out, const struct bot_prompt *p)
{
    struct str instructions = str_trim(str_of(p->instructions));
    buf_addf(out, STR_FMT "\n\n## Status\n- Project: %s\n", STR_ARG(instructions), p->project);
    write_skills(out, p);
    write_memory(out, p);
    write_recent(out, p);
    write_skills_system(out, p);
}
