// A turn for an editor.
//
//     session/prompt ── compose (prompt.c) ── "/name ..."? a command ──> its output
//                            └─ a message ──> the turn's events ──┬─> updates (update.c)
//                                                                 ├─ a question ──> the editor asks ──> the hub
//                                                                 └─ the end ──> stopReason
//
// A question of the model without choices is shown as a message that ends the prompt, and the next prompt is its answer:
// the stream of the turn stays open between them.

#include "acp/acp_int.h"

// ---- a prompt -------------------------------------------------------------------------------------

static void end_prompt(struct acp_session *s, const char *reason)
{
    struct acp_request *r = s->prompt;
    char text[64];
    s->prompt = NULL;
    s->cancelled = false;
    if (r != NULL) {
        snprintf(text, sizeof text, "{\"stopReason\":\"%s\"}", reason);
        acp__answer(r, str_of(text));
    }
}

static void fail_prompt(struct acp_session *s, const char *why)
{
    struct acp_request *r = s->prompt;
    bool cancelled = s->cancelled;
    if (cancelled) {
        end_prompt(s, "cancelled");
    } else if (r != NULL) {
        s->prompt = NULL;
        acp__refuse(r, RPC_INTERNAL_ERROR, "%s", why);
    }
}

void acp__stream_ended(struct acp_session *s, const char *why)
{
    s->question[0] = '\0';
    fail_prompt(s, why != NULL ? why : "lost the connection to the hub during the turn");
}

/// {text, images?, env}: a hub that was restarted since the last message does not know our environment.
static void send_message(struct acp_session *s, struct str text, struct str images)
{
    char path[ACP_ID + 32];
    struct buf body = {.max = SIZE_MAX};
    buf_addz(&body, "{\"text\":");
    struct jw w = {.out = &body};
    jw_str(&w, text);
    if (images.n != 0) {
        buf_addf(&body, ",\"images\":" STR_FMT, STR_ARG(images));
    }
    buf_addf(&body, ",\"if_busy\":\"reject\",\"env\":" STR_FMT "}", STR_ARG(s->acp->o.env));
    snprintf(path, sizeof path, "/session/%s/message", s->id);
    s->turn[0] = '\0';
    acp__follow(s, path, buf_str(&body));
    buf_fini(&body);
}

/// Tell the editor `text` as the answer to its prompt.
static void answer_prompt(struct acp_session *s, struct str text)
{
    acp__say(s, "agent_message_chunk", text);
    end_prompt(s, "end_turn");
}

/// A command on its way: which one is meant, then what it gives.
struct running {
    struct acp_session *s;
    char *line;   // "/name arguments"
    char *images; // that came with it, in case it is a message; JSON, or empty
    bool prompt;
};

static void running_free(struct running *c)
{
    free(c->line);
    free(c->images);
    free(c);
}

static void on_output(void *arg, const struct json *v, const char *why)
{
    struct running *c = arg;
    struct acp_session *s = c->s;
    const struct json *output = json_get(v, "output");
    bool prompt = c->prompt;
    running_free(c);
    if (v == NULL) {
        fail_prompt(s, why);
    } else if (prompt && output != NULL && output->type == JSON_STR && !s->cancelled) {
        send_message(s, output->s, STR_NULL);
    } else {
        struct buf text = {.max = SIZE_MAX};
        if (output != NULL && output->type == JSON_STR) {
            buf_adds(&text, output->s);
        } else if (output != NULL && output->type != JSON_NULL) {
            json_write(&text, output, 2);
        }
        answer_prompt(s, buf_str(&text));
        buf_fini(&text);
    }
}

static void on_compacted(void *arg, const struct json *v, const char *why)
{
    struct acp_session *s = arg;
    if (v == NULL) {
        fail_prompt(s, why);
    } else {
        answer_prompt(s,
                      STR("conversation compacted: earlier messages were replaced by a summary"));
    }
}

static void run_command(struct running *c, struct str full)
{
    struct buf body = {.max = SIZE_MAX};
    struct str rest = str_of(c->line);
    str_cut(&rest, ' ');
    char *path = xasprintf("/command/" STR_FMT, STR_ARG(full));
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_karr(&w, "args");
    while (rest.n != 0) {
        struct str word = str_cut(&rest, ' ');
        if (word.n != 0) {
            jw_str(&w, word);
        }
    }
    jw_end_arr(&w);
    jw_kstrz(&w, "working_dir", c->s->dir);
    jw_end_obj(&w);
    acp__call(c->s->acp, "POST", path, buf_str(&body), on_output, c);
    buf_fini(&body);
    free(path);
}

/// A line that begins with `/` and names no command is a message like any other.
static void on_known(void *arg, const struct json *v, const char *why)
{
    struct running *c = arg;
    struct str rest = str_of(c->line + 1);
    struct str name = str_cut(&rest, ' ');
    (void)why;
    json_foreach_item (it, json_get(v, "commands")) {
        struct str full = json_get_text(it, "name");
        bool safe = memchr(full.p, '/', full.n) == NULL && memchr(full.p, '%', full.n) == NULL &&
                    memchr(full.p, '?', full.n) == NULL && memchr(full.p, '#', full.n) == NULL;
        if (safe && (str_eq(name, full) || str_eq(name, acp__short_name(full)))) {
            c->prompt = json_bool(json_get(it, "prompt"), false);
            run_command(c, full);
            return;
        }
    }
    struct acp_session *s = c->s;
    if (str_eqz(name, "compact")) {
        char path[ACP_ID + 32];
        snprintf(path, sizeof path, "/session/%s/compact", s->id);
        acp__call(s->acp, "POST", path, STR_NULL, on_compacted, s);
    } else {
        send_message(s, str_of(c->line), str_of(c->images));
    }
    running_free(c);
}

static void on_answered(void *arg, const struct json *v, const char *why)
{
    struct acp_session *s = arg;
    if (v == NULL && why != NULL) {
        fail_prompt(s, why);
    }
}

static void send_value(struct acp_session *s, const char *question, const struct json *answer)
{
    char path[2 * ACP_ID + 32];
    struct buf body = {.max = SIZE_MAX};
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kvalue(&w, "answer", answer);
    jw_end_obj(&w);
    snprintf(path, sizeof path, "/session/%s/answer/%s", s->id, question);
    acp__call(s->acp, "POST", path, buf_str(&body), on_answered, s);
    buf_fini(&body);
}

static void send_answer(struct acp_session *s, const char *question, struct str text)
{
    send_value(s, question, &(struct json){.type = JSON_STR, .s = text});
}

static void on_composed(void *arg, struct str text, struct str images)
{
    struct acp_session *s = arg;
    if (s->cancelled || s->acp->closed) {
        end_prompt(s, "cancelled");
    } else if (s->question[0] != '\0' && s->stream != NULL) {
        char question[ACP_ID];
        memcpy(question, s->question, sizeof question);
        s->question[0] = '\0';
        send_answer(s, question, text);
    } else if (s->stream !=
               NULL) { // its question was answered by another client, or is being cancelled
        fail_prompt(s, "the last turn still runs; wait for its end, or cancel it");
    } else if (text.n > 1 && text.p[0] == '/') {
        struct running *c = xcalloc(1, sizeof *c);
        *c = (struct running){.s = s, .line = str_dup(text), .images = str_dup(images)};
        acp__call(s->acp, "GET", "/command", STR_NULL, on_known, c);
    } else {
        send_message(s, text, images);
    }
}

static void on_linked(void *arg)
{
    struct acp_session *s = arg;
    if (s->prompt != NULL) { // the editor may be gone
        acp__compose(s->acp, s->id, json_get(s->prompt->params, "prompt"), on_composed, s);
    }
}

void acp__prompt(struct acp_request *r)
{
    struct acp_session *s = acp__find(r->acp, json_get_text(r->params, "sessionId"));
    if (s == NULL) {
        acp__refuse(r, RPC_INVALID_PARAMS,
                    "this session is not open here; use session/new or session/load first");
    } else if (s->prompt != NULL) {
        acp__refuse(r, RPC_INVALID_REQUEST, "a prompt of this session is still being answered");
    } else {
        s->prompt = r;
        s->cancelled = false;
        acp__link(s, on_linked, s); // again, if the hub was restarted
    }
}

void acp__cancel(struct acp *a, struct str id)
{
    struct acp_session *s = acp__find(a, id);
    char path[ACP_ID + 32];
    if (s != NULL && (s->prompt != NULL || s->stream != NULL)) {
        s->cancelled = true;
        snprintf(path, sizeof path, "/session/%s/interrupt", s->id);
        acp__call(a, "POST", path, STR_NULL, NULL, NULL); // the stream says how the turn ended
    }
}

// ---- what the turn asks -----------------------------------------------------------------------------

struct asking {
    struct acp_session *s;
    char id[ACP_ID];
    bool question;
};

static struct asking *asking_new(struct acp_session *s, struct str id, bool question)
{
    struct asking *q = xcalloc(1, sizeof *q);
    *q = (struct asking){.s = s, .question = question};
    snprintf(q->id, sizeof q->id, STR_FMT, STR_ARG(id));
    return q;
}

static void on_chosen(void *arg, const struct json *result)
{
    struct asking q = *(struct asking *)arg;
    struct str option = json_str(json_ptr(result, "/outcome/optionId"), "");
    char path[2 * ACP_ID + 32];
    struct buf body = {.max = SIZE_MAX};
    free(arg);
    if (q.s->acp->closed || (q.s->cancelled && option.n == 0)) {
        return; // the turn ends anyway
    }
    if (q.question) {
        send_answer(q.s, q.id, option);
        return;
    }
    struct str remember = option;
    struct str decision = str_cut(&remember, ':');
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kstrz(&w, "decision", str_eqz(decision, "allow") ? "allow" : "deny");
    if (remember.n != 0) {
        jw_kstr(&w, "remember", remember);
    }
    jw_end_obj(&w);
    snprintf(path, sizeof path, "/session/%s/permission/%s", q.s->id, q.id);
    acp__call(q.s->acp, "POST", path, buf_str(&body), NULL, NULL);
    buf_fini(&body);
}

static void write_option(struct jw *w, struct str id, struct str name, const char *kind)
{
    jw_obj(w);
    jw_kstr(w, "optionId", id);
    jw_kstr(w, "name", name);
    jw_kstrz(w, "kind", kind);
    jw_end_obj(w);
}

/// Each answer that the hub offers is an option, and says what it covers.
static void write_offers(struct jw *w, const struct json *offers, struct arena *a)
{
    json_foreach_item (it, offers) {
        struct str remember = json_get_text(it, "remember");
        struct str covers = json_get_text(it, "covers");
        bool once = str_eqz(remember, "once");
        const char *id = arena_printf(a, "allow:" STR_FMT, STR_ARG(remember));
        const char *name =
            once ? "Allow" : arena_printf(a, "Always allow " STR_FMT, STR_ARG(covers));
        write_option(w, str_of(id), str_of(name), once ? "allow_once" : "allow_always");
    }
    write_option(w, STR("deny"), STR("Reject"), "reject_once");
}

static void ask_permission(struct acp_session *s, const struct json *ev)
{
    const struct json *call = json_get(ev, "call");
    struct str diff = json_get_text(ev, "diff");
    struct arena a = {0};
    struct acp_message m;
    struct jw *w = acp__ask(&m, s->acp, s->id, "session/request_permission");
    jw_kobj(w, "toolCall");
    acp__write_call(s, w, json_get_text(ev, "turn"), json_get_text(call, "tool_call_id"),
                    json_get_text(call, "tool_name"), json_get(call, "input"));
    jw_kstrz(w, "status", "pending");
    if (diff.n != 0) {
        jw_karr(w, "content");
        acp__write_diff(s, w, json_str(json_ptr(call, "/input/path"), ""), diff);
        jw_end_arr(w);
    }
    jw_end_obj(w);
    jw_karr(w, "options");
    write_offers(w, json_get(ev, "offers"), &a);
    jw_end_arr(w);
    acp__ask_end(&m, on_chosen, asking_new(s, json_get_text(ev, "request_id"), false));
    arena_fini(&a);
}

/// The user has filled in a form, or not: {action, content?}. An editor that fails counts as "cancel".
static void on_filled(void *arg, const struct json *result)
{
    static const struct json_member cancel[] = {
        {{"action", 6}, {.type = JSON_STR, .s = {"cancel", 6}}}};
    static const struct json cancelled = {
        .type = JSON_OBJ, .n = 1, .members = (struct json_member *)(uintptr_t)cancel};
    struct asking q = *(struct asking *)arg;
    free(arg);
    if (!q.s->acp->closed && !q.s->cancelled) {
        send_value(q.s, q.id, json_get(result, "action") != NULL ? result : &cancelled);
    }
}

/// A form that a running tool asks for, where the editor shows forms. A question with choices is one about a call of
/// its own; one without is a message that the next prompt answers.
static void ask_question(struct acp_session *s, const struct json *ev)
{
    struct str id = json_get_text(ev, "question_id"), question = json_get_text(ev, "question");
    const struct json *choices = json_get(ev, "choices"), *form = json_get(ev, "form");
    struct acp_message m;
    if (s->acp->forms && json_get(form, "requestedSchema") != NULL) {
        struct jw *w = acp__ask(&m, s->acp, s->id, "elicitation/create");
        jw_kstrz(w, "mode", "form");
        jw_kvalue(w, "message", json_get(form, "message"));
        jw_kvalue(w, "requestedSchema", json_get(form, "requestedSchema"));
        acp__ask_end(&m, on_filled, asking_new(s, id, true));
        return;
    }
    if (json_at(choices, 0) == NULL) {
        snprintf(s->question, sizeof s->question, STR_FMT, STR_ARG(id));
        answer_prompt(s, question);
        return;
    }
    struct jw *w = acp__ask(&m, s->acp, s->id, "session/request_permission");
    jw_kobj(w, "toolCall");
    jw_kstr(w, "toolCallId", id);
    jw_kstr(w, "title", question);
    jw_kstrz(w, "kind", "other");
    jw_end_obj(w);
    jw_karr(w, "options");
    json_foreach_item (it, choices) {
        write_option(w, json_str(it, ""), json_str(it, ""), "allow_once");
    }
    jw_end_arr(w);
    acp__ask_end(&m, on_chosen, asking_new(s, id, true));
}

static void end_turn(struct acp_session *s, struct str type, const struct json *ev)
{
    struct str code = json_str(json_ptr(ev, "/error/code"), "");
    struct str message = json_str(json_ptr(ev, "/error/message"), "");
    vec_fini_each(&s->calls, acp__progress_free);
    acp__unfollow(s);
    if (str_eqz(type, "turn.completed")) {
        end_prompt(s, s->cancelled ? "cancelled" : "end_turn");
    } else if (str_eqz(type, "turn.interrupted")) {
        end_prompt(s, "cancelled");
    } else if (str_eqz(code, "LIMIT_REACHED")) {
        end_prompt(s, "max_turn_requests");
    } else if (str_eqz(code, "CONTEXT_OVERFLOW")) {
        end_prompt(s, "max_tokens");
    } else {
        char *why = xasprintf(STR_FMT ": " STR_FMT, STR_ARG(code), STR_ARG(message));
        fail_prompt(s, why);
        free(why);
    }
}

void acp__event(struct acp_session *s, struct str type, const struct json *ev)
{
    struct str turn = json_get_text(ev, "turn");
    if (str_eqz(type, "turn.started") && s->turn[0] == '\0') {
        snprintf(s->turn, sizeof s->turn, STR_FMT, STR_ARG(turn));
    }
    bool ours = s->turn[0] != '\0' && str_eqz(turn, s->turn);
    if (str_eqz(type, "permission.requested")) {
        ask_permission(s, ev);
    } else if (str_eqz(type, "question.asked")) {
        ask_question(s, ev);
    } else if (ours && (str_eqz(type, "turn.completed") || str_eqz(type, "turn.failed") ||
                        str_eqz(type, "turn.interrupted"))) {
        end_turn(s, type, ev);
    } else {
        acp__tell(s, type, ev, false);
    }
}
