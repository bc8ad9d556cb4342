// One session's journal as the things that a reader sees: messages, tool cards, questions, notices.
//
// Events are applied strictly in the order of `seq`. What comes live with a higher number than the next
// waits while the hole is read from the journal; what was applied already is passed over. So neither a
// break of the stream nor a restart of the hub loses or doubles anything.
//
// Items are replaced, never changed, so that a component whose item is the same renders nothing. Changes
// are announced once per frame.
import type { JournalEvent, Usage } from "./answers";
import { call, explain } from "./client";
import { link, onEvent, onOnline, onResync } from "./events";
import type { ToolCall } from "./registry";

export interface Offer {
  remember: string;
  covers: string;
}
interface Base {
  key: string;
  turn: string;
  ts: string;
  seq: number;
}
export interface UserItem extends Base {
  kind: "user";
  text: string;
  how: "" | "queued" | "steer";
  pictures: number;
}
export interface AssistantItem extends Base {
  kind: "assistant";
  step: number;
  text: string;
  reasoning: string;
  done: boolean;
  leftOut: number;
  /** It was interrupted or steered in the middle. */
  cut: boolean;
}
export interface ToolItem extends Base {
  kind: "tool";
  call: ToolCall;
  changedBy: string | null;
}
export interface PermissionItem extends Base {
  kind: "permission";
  requestId: string;
  callId: string;
  tool: string;
  input: unknown;
  diff: string | null;
  /** Why it is asked whatever the rules say: "sandbox", "mcp". */
  by: string;
  /** The session of the subagent that asks; empty: it is this one. */
  task: string;
  offers: Offer[];
  decision: { decision: string; by: string; reason?: string; remember?: string } | null;
}
export interface QuestionItem extends Base {
  kind: "question";
  questionId: string;
  question: string;
  choices: string[];
  answer: string | null;
}
export interface NoticeItem extends Base {
  kind: "notice";
  tone: "info" | "warning" | "error";
  text: string;
  detail?: string;
}
export interface EndItem extends Base {
  kind: "end";
  usage: Usage | null;
  durationMs: number | null;
}
export type Item = UserItem | AssistantItem | ToolItem | PermissionItem | QuestionItem | NoticeItem | EndItem;

/** What was shown where a turn began or a rewind happened: one can go back to there. */
interface Point {
  /** Items that there were. */
  count: number;
  /** Of these, the ones that were taken away. */
  hidden: ReadonlySet<string>;
}

export interface Todo {
  text: string;
  state: "pending" | "active" | "done";
}
/** The last that was told of the environment of the session's commands. */
export interface Environment {
  type: string;
  ts: string;
  project: string;
  generation: number | null;
  durationMs: number | null;
  error: string | null;
  added: readonly string[];
  changed: readonly string[];
  removed: readonly string[];
}
export interface Snapshot {
  items: readonly Item[];
  env: Environment | null;
  todo: readonly Todo[];
  turn: string | null;
  usage: Usage | null;
  /** Tokens of the last request, and what the model takes. */
  context: { used: number; window: number } | null;
  loading: boolean;
  error: string | null;
}

const str = (v: unknown): string => (typeof v === "string" ? v : "");
const PAGE = 1000;
const names = (v: unknown): string[] => (Array.isArray(v) ? v.map(String) : []);
const number = (v: unknown): number | null => (typeof v === "number" ? v : null);

function environment(e: JournalEvent): Environment {
  return {
    type: e.type, ts: e.ts, project: str(e.project), generation: number(e.generation), durationMs: number(e.duration_ms),
    error: str(e.error) || null, added: names(e.added), changed: names(e.changed), removed: names(e.removed),
  };
}

export class Conversation {
  private all: Item[] = [];
  private byKey = new Map<string, number>();
  private readonly calls = new Map<string, string>(); // id of a call -> key of its card: a model may use an id again
  private open = -1; // index of the assistant message that still grows
  private queued: UserItem[] = []; // messages whose turn has not begun: shown after all else
  private todo: Todo[] = [];
  private env: Environment | null = null;
  private turn: string | null = null;
  private usage: Usage | null = null;
  private context: Snapshot["context"] = null;
  private last = 0;
  private early = new Map<number, JournalEvent>();
  private reading: Promise<void> | null = null;
  private hidden: ReadonlySet<string> = new Set(); // keys of the items that rewinds took away; a rewind makes a new set
  private readonly points = new Map<string, Point>(); // by the id of a turn or of a rewind
  private dirty = false;
  private readonly readers = new Set<() => void>();
  private readonly ends: (() => void)[];
  private failed: string | null = null;
  private snap: Snapshot = { items: [], env: null, todo: [], turn: null, usage: null, context: null, loading: true, error: null };

  constructor(readonly id: string) {
    this.ends = [
      onEvent("*", (e) => { if (e.session === id && e.seq !== undefined) this.take(e as JournalEvent); }),
      onResync(() => void this.catchUp()),
      onOnline(() => { if (this.failed !== null) void this.catchUp(); }),
    ];
    void this.catchUp();
  }

  close(): void {
    for (const end of this.ends) end();
  }
  readonly subscribe = (fn: () => void): (() => void) => {
    this.readers.add(fn);
    return () => this.readers.delete(fn);
  };
  readonly snapshot = (): Snapshot => this.snap;

  // ---- order --------------------------------------------------------------------------------

  private take(e: JournalEvent): void {
    if (e.seq <= this.last) return;
    if (e.seq > this.last + 1 || this.reading) {
      this.early.set(e.seq, e);
      void this.catchUp();
      return;
    }
    this.apply(e);
  }

  private applyEarly(): void {
    for (let e; (e = this.early.get(this.last + 1)); ) {
      this.early.delete(e.seq);
      this.apply(e);
    }
    for (const seq of this.early.keys()) if (seq <= this.last) this.early.delete(seq);
  }

  /** Read the journal from where we are to its end. One reader at a time; a second call joins it. */
  catchUp(): Promise<void> {
    this.reading ??= this.read().finally(() => {
      this.reading = null;
      this.applyEarly();
      if (this.early.size > 0 && this.failed === null) void this.catchUp();
      this.changed();
    });
    return this.reading;
  }

  private async read(): Promise<void> {
    try {
      for (;;) {
        const page = await call("session.events", { id: this.id, after: this.last, limit: PAGE });
        for (const e of page.events) if (e.seq > this.last) this.apply(e);
        if (page.events.length < PAGE) break;
        this.changed();
      }
      this.failed = null;
    } catch (e) {
      this.failed = explain(e);
    }
  }

  /** How far this is read. */
  heard(): number {
    return this.last;
  }

  /** Whether a message whose answer was lost is in the journal, after event `since`. Waits until the hub is there. */
  async arrived(text: string, since: number): Promise<boolean> {
    while (link.get() !== "online") await new Promise<void>((done) => { const end = link.subscribe(() => { end(); done(); }); });
    await this.catchUp();
    return [...this.all, ...this.queued].some((i) => i.kind === "user" && i.seq > since && i.text === text);
  }

  private changed(): void {
    if (this.dirty) return;
    this.dirty = true;
    const publish = () => {
      this.dirty = false;
      this.snap = {
        items: [...this.all.filter((i) => !this.hidden.has(i.key)), ...this.queued], env: this.env, todo: this.todo, turn: this.turn, usage: this.usage, context: this.context,
        loading: this.reading !== null && this.last === 0, error: this.failed,
      };
      for (const fn of [...this.readers]) fn();
    };
    if (document.hidden) setTimeout(publish, 50); // frames stop in a tab that nobody sees
    else requestAnimationFrame(publish);
  }

  // ---- items --------------------------------------------------------------------------------

  private put(item: Item): number {
    const at = this.byKey.get(item.key);
    if (at !== undefined) {
      this.all[at] = item;
      return at;
    }
    this.byKey.set(item.key, this.all.length);
    this.all.push(item);
    return this.all.length - 1;
  }

  private get<K extends Item["kind"]>(kind: K, key: string): Extract<Item, { kind: K }> | undefined {
    const item = this.all[this.byKey.get(key) ?? -1];
    return item?.kind === kind ? (item as Extract<Item, { kind: K }>) : undefined;
  }

  /** The card of the last call with this id. */
  private called(id: unknown): ToolItem | undefined {
    return this.get("tool", this.calls.get(str(id)) ?? "");
  }

  private apply(e: JournalEvent): void {
    this.last = e.seq;
    const base: Base = { key: `e${e.seq}`, turn: e.turn ?? this.turn ?? "", ts: e.ts, seq: e.seq };
    if (e.type.startsWith("env.")) this.env = environment(e);
    this.unqueue(e.turn);
    this.handlers[e.type]?.(e, base);
    this.changed();
  }

  /** Something happens in a turn: its message waits no more. */
  private unqueue(turn: string | undefined): void {
    const item = this.queued.find((i) => i.turn === turn);
    if (!item) return;
    this.queued = this.queued.filter((i) => i !== item);
    this.put(item);
  }

  private growing(e: JournalEvent, base: Base): AssistantItem {
    const item = this.all[this.open];
    if (item?.kind === "assistant" && !item.done && item.turn === base.turn) return item;
    const made: AssistantItem = {
      ...base, kind: "assistant", step: e.step ?? 0, text: "", reasoning: "", done: false, leftOut: 0, cut: false,
    };
    this.open = this.put(made);
    return made;
  }

  private endTurn(e: JournalEvent, base: Base): void {
    const item = this.all[this.open];
    if (item?.kind === "assistant" && !item.done) this.all[this.open] = { ...item, done: true };
    this.open = -1;
    this.turn = null;
    for (let at = this.all.length - 1; at >= 0; at--) { // what the end of the turn left without an answer
      const open = this.all[at]!;
      if (open.turn !== base.turn && open.kind === "end") break; // an earlier turn
      if (open.turn !== base.turn) continue;
      if (open.kind === "tool" && (open.call.state === "running" || open.call.state === "waiting")) {
        this.all[at] = { ...open, call: { ...open.call, state: "failed", error: open.call.error ?? "ended with the turn" } };
      }
      if (open.kind === "permission" && !open.decision) this.all[at] = { ...open, decision: { decision: "ended", by: "turn" } };
      if (open.kind === "question" && open.answer === null) this.all[at] = { ...open, answer: "" };
    }
    this.put({
      ...base, kind: "end", usage: (e.usage as Usage | undefined) ?? null,
      durationMs: typeof e.duration_ms === "number" ? e.duration_ms : null,
    });
  }

  private notice(base: Base, tone: NoticeItem["tone"], text: string, detail?: string): void {
    this.put({ ...base, key: `n${base.seq}`, kind: "notice", tone, text, detail });
  }

  /** A notice of this page alone: it is not in the journal. */
  say(tone: NoticeItem["tone"], text: string, detail?: string): void {
    const at = { turn: this.turn ?? "", ts: new Date().toISOString(), seq: this.last };
    this.put({ ...at, key: `p${this.all.length}`, kind: "notice", tone, text, detail });
    this.changed();
  }

  private mark(id: string): void {
    this.points.set(id, { count: this.all.length, hidden: this.hidden });
  }

  /** Show what was shown at the point `to`, as the model knows it from now on, and all notices. */
  private goBack(to: string): void {
    const point = this.points.get(to);
    if (!point) return;
    const stays = (item: Item, at: number) => at < point.count && !point.hidden.has(item.key) && item.turn !== to; // a turn's message is there before it begins
    this.hidden = new Set(this.all.filter((item, at) => item.kind !== "notice" && !stays(item, at)).map((item) => item.key));
    this.open = -1;
  }

  private rewound(e: JournalEvent, base: Base): void {
    const to = str(e.to);
    this.mark(str(e.checkpoint)); // to go back to this rewind is to undo it
    if (e.conversation !== false) this.goBack(to);
    const n = (Array.isArray(e.restored) ? e.restored.length : 0) + (Array.isArray(e.deleted) ? e.deleted.length : 0);
    const what = [e.conversation !== false && "the conversation", e.files !== false && `${n} file${n === 1 ? "" : "s"}`];
    this.notice(base, "info", `Rewound ${what.filter(Boolean).join(" and ")} to before ${to}`);
  }

  private readonly handlers: Record<string, (e: JournalEvent, base: Base) => void> = {
    "turn.started": (e) => { this.turn = e.turn ?? null; this.failed = null; this.mark(str(e.turn)); },
    "message.delta": (e, base) => {
      const item = this.growing(e, base);
      this.all[this.open] = { ...item, text: item.text + str(e.text), reasoning: item.reasoning + str(e.reasoning) };
    },
    "message.aborted": (e, base) => {
      const item = this.growing(e, base);
      this.all[this.open] = { ...item, text: "", reasoning: "" };
      const why = e.error as { message?: string } | string | undefined;
      const text = typeof why === "string" ? why : why?.message;
      if (text) this.notice(base, "warning", "The model's answer broke off; trying again", text);
    },
    "message.completed": (e, base) => {
      if (e.role === "user") {
        const item: UserItem = { ...base, kind: "user", text: str(e.text), how: e.steer ? "steer" : e.queued ? "queued" : "", pictures: Array.isArray(e.images) ? e.images.length : 0 };
        if (e.queued) {
          this.queued = [...this.queued, item];
          return;
        }
        this.open = -1;
        this.put(item);
        return;
      }
      if (e.role !== "assistant") return;
      const item = this.growing(e, base);
      this.all[this.open] = { ...item, text: str(e.text), done: true, leftOut: Number(e.left_out ?? 0), cut: e.cut === true };
      this.open = -1;
    },
    "tool.called": (e, base) => {
      const call: ToolCall = {
        callId: str(e.call_id), tool: str(e.tool), input: e.input, output: "", state: "running", error: null, diff: null,
        durationMs: null,
      };
      const key = `c${e.seq}`;
      this.calls.set(call.callId, key);
      this.put({ ...base, key, kind: "tool", call, changedBy: str(e.changed_by) || null });
    },
    "tool.progress": (e) => {
      const item = this.called(e.call_id);
      if (item) this.put({ ...item, call: { ...item.call, output: (item.call.output + str(e.text)).slice(-200_000) } });
    },
    "tool.completed": (e, base) => {
      const old = this.called(e.call_id);
      const input = old?.call.input ?? e.input ?? {};
      const call: ToolCall = {
        callId: str(e.call_id), tool: str(e.tool), input, output: str(e.output), state: e.success ? "done" : "failed",
        error: str(e.error) || null, diff: str(e.diff) || null,
        durationMs: typeof e.duration_ms === "number" ? e.duration_ms : null,
      };
      this.put({ ...(old ?? { ...base, kind: "tool", changedBy: null }), call });
    },
    "permission.requested": (e, base) => {
      const c = (e.call ?? {}) as { tool_name?: string; tool_call_id?: string; input?: unknown };
      const held = str(e.task) ? undefined : this.called(c.tool_call_id); // a subagent's ids are its own
      if (held) this.put({ ...held, call: { ...held.call, state: "waiting" } });
      this.put({
        ...base, key: `p${str(e.request_id)}`, kind: "permission", requestId: str(e.request_id),
        callId: str(c.tool_call_id), tool: str(c.tool_name), input: c.input, diff: str(e.diff) || null, by: str(e.by), task: str(e.task),
        offers: Array.isArray(e.offers) ? (e.offers as Offer[]) : [], decision: null,
      });
    },
    "permission.decided": (e) => {
      const asked = this.get("permission", `p${str(e.request_id)}`);
      const decision = { decision: str(e.decision), by: str(e.by), reason: str(e.reason) || undefined, remember: str(e.remember) || undefined };
      if (asked) this.put({ ...asked, decision });
      const held = this.called(e.call_id);
      if (held?.call.state === "waiting") this.put({ ...held, call: { ...held.call, state: "running" } });
    },
    "question.asked": (e, base) => {
      this.put({
        ...base, key: `q${str(e.question_id)}`, kind: "question", questionId: str(e.question_id),
        question: str(e.question), choices: Array.isArray(e.choices) ? e.choices.map(String) : [], answer: null,
      });
    },
    "question.answered": (e) => {
      const asked = this.get("question", `q${str(e.question_id)}`);
      const answer = typeof e.answer === "string" ? e.answer : JSON.stringify(e.answer);
      if (asked) this.put({ ...asked, answer });
    },
    "todo.updated": (e) => { this.todo = Array.isArray(e.items) ? (e.items as Todo[]) : []; },
    "usage.updated": (e) => {
      this.usage = (e.usage as Usage | undefined) ?? null;
      const c = e.context as { used?: unknown; window?: unknown } | undefined;
      this.context = typeof c?.used === "number" && typeof c.window === "number" && c.window > 0 ? { used: c.used, window: c.window } : null;
    },
    "session.compacting": (_e, base) => this.notice(base, "info", "Making room: earlier messages become a summary"),
    "turn.completed": (e, base) => this.endTurn(e, base),
    "turn.failed": (e, base) => {
      const error = (e.error ?? {}) as { code?: string; message?: string };
      this.endTurn(e, base);
      this.notice(base, "error", error.message ?? "The turn failed", error.code);
    },
    "turn.interrupted": (e, base) => {
      this.endTurn(e, base);
      this.notice(base, "info", "Stopped");
    },
    "session.compacted": (e, base) =>
      this.notice(base, "info", "Earlier messages were replaced by a summary", str(e.summary) || undefined),
    "session.rewound": (e, base) => this.rewound(e, base),
    "session.ended": (_e, base) => this.notice(base, "info", "The session has ended"),
    "plugin.error": (e, base) => {
      const at = e.path ? ` (${str(e.path)}${e.line ? `:${e.line}` : ""})` : "";
      this.notice(base, "warning", `Plugin ${str(e.plugin)}: ${str(e.message)}`, `${str(e.hook)}${at}`);
    },
    "env.applied": (e, base) => {
      const all = ["added", "changed", "removed"].flatMap((k) => names(e[k]));
      this.notice(base, "info", `The environment was reloaded: ${all.length} variable${all.length === 1 ? "" : "s"}`, all.join(" "));
    },
    "env.failed": (e, base) => this.notice(base, "warning", "The environment could not be built; the old one stays", str(e.error)),
    "journal.repaired": (e, base) => this.notice(base, "warning", "A damaged place of the journal was passed over", str(e.message)),
  };
}

// ---- the open ones -------------------------------------------------------------------------------

const KEPT = 4; // conversations that stay in memory after another one was chosen
const open = new Map<string, Conversation>();

/** The conversation of a session; the last few stay loaded. */
export function conversation(id: string): Conversation {
  const made = open.get(id) ?? new Conversation(id);
  open.delete(id);
  open.set(id, made); // the newest last
  for (const [old, c] of open) {
    if (open.size <= KEPT) break;
    c.close();
    open.delete(old);
  }
  return made;
}
