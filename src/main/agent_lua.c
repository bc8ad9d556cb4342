// Sessions as Lua sees them.
//
//     hub.sessions ──> list ──> agent_session_list ──────────────────> {sessions}
//     hub.send ──────> send ──> agent_session_get ──> agent_send ────> in the journal, or why not
//     agent ── made, ended ──> agent_lua_tell ──> handlers of agent_created, agent_deleted
//
// A message from Lua is one like any other: it is queued behind a turn that runs, and who sent it is
// answered when the journal has it, not when the turn is over. So a handler may send to the session
// whose turn it is part of.

#include "main/agent_lua.h"

#include "agent/agent.h"
#include "bind/bind.h"

enum { LIST_MAX = 1000 }; // those started last; a state of 64 MiB holds their rows

// ---- list ---------------------------------------------------------------------------------------

struct question {
    bind_answer_cb *cb;
    void *arg;
};

static void on_listed(void *arg, struct str json, const struct agent_no *no)
{
    struct question q = *(struct question *)arg;
    free(arg);
    q.cb(q.arg, json, no != NULL ? no->detail : NULL);
}

static void list_sessions(void *arg, bind_answer_cb *cb, void *cb_arg)
{
    struct question *q = xmalloc(sizeof *q);
    *q = (struct question){.cb = cb, .arg = cb_arg};
    agent_session_list(arg, STR_NULL, STR_NULL, LIST_MAX, on_listed, q);
}

// ---- send ---------------------------------------------------------------------------------------

struct mail {
    char *text;
    bind_answer_cb *cb;
    void *arg;
};

static void mail_end(struct mail *m, const struct agent_no *no)
{
    m->cb(m->arg, STR_NULL, no != NULL ? no->detail : NULL);
    free(m->text);
    free(m);
}

static void on_sent(void *arg, const struct agent_sent *sent, const struct agent_no *no)
{
    (void)sent;
    mail_end(arg, no);
}

static void on_found(void *arg, struct session *s, const struct agent_no *no)
{
    struct mail *m = arg;
    if (s == NULL) {
        mail_end(m, no);
    } else {
        agent_send(s, str_of(m->text), false, on_sent, m);
    }
}

static void send_message(void *arg, struct str id, struct str text, bind_answer_cb *cb,
                         void *cb_arg)
{
    struct mail *m = xmalloc(sizeof *m);
    *m = (struct mail){.text = str_dup(text), .cb = cb, .arg = cb_arg};
    agent_session_get(arg, id, on_found, m);
}

// ---- public -------------------------------------------------------------------------------------

void agent_lua_open(struct bind *b, struct agent *a)
{
    bind_set_sessions(
        b, &(struct bind_sessions){.list = list_sessions, .send = send_message, .arg = a});
}

void agent_lua_close(struct bind *b)
{
    bind_set_sessions(b, NULL);
}

void agent_lua_tell(struct bind *b, const char *event, const struct session *s)
{
    struct arena arena;
    struct buf row;
    struct json *v;
    struct jw w;
    if (b == NULL) {
        return;
    }
    arena_init(&arena);
    buf_init(&row, SIZE_MAX);
    jw_init(&w, &row);
    agent_session_write(s, &w);
    if (json_parse(&v, &arena, buf_str(&row), NULL, NULL) == 0) {
        bind_notify(b, event, v);
    }
    buf_fini(&row);
    arena_fini(&arena);
}
