import { memo, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import { VList, type VListHandle } from "virtua";
import { PermissionCard, QuestionCard } from "./Ask";
import { Boundary } from "./Boundary";
import { CopyButton } from "./Code";
import { Icon } from "./Icon";
import { ToolCard } from "./Tool";
import { call, explain } from "../lib/client";
import { conversation, type AssistantItem, type Item, type Snapshot, type Todo, type UserItem } from "../lib/conversation";
import { clock, duration, plural, usageText } from "../lib/format";
import { Markdown } from "../lib/markdown";
import { noteSession } from "../lib/sessions";
import { currentSession, openPanel, toast } from "../lib/ui";

export function useConversation(id: string): Snapshot {
  const c = conversation(id);
  return useSyncExternalStore(c.subscribe, c.snapshot);
}

/** Where the first thing is that a person has to decide before the turn goes on; -1: there is none. */
const firstAsked = (snap: Snapshot): number => snap.items.findIndex((i) => (i.kind === "permission" && !i.decision) || (i.kind === "question" && i.answer === null));

export function waitsFor(snap: Snapshot): "permission" | "answer" | null {
  const item = snap.items[firstAsked(snap)];
  return item ? (item.kind === "permission" ? "permission" : "answer") : null;
}

async function forkAt(session: string, seq: number): Promise<void> {
  try {
    const row = await call("session.fork", { id: session, seq });
    noteSession(row);
    currentSession.set(row.id);
    toast("Forked: you are in the copy now", "success");
  } catch (e) {
    toast(explain(e), "error");
  }
}

function User({ item, session }: { item: UserItem; session: string }) {
  return (
    <article className="user" aria-label="You">
      <div className="user-text" dir="auto">{item.text}</div>
      <div className="user-foot">
        <span className="hover-actions">
          <CopyButton text={item.text} label="Copy message" />
          <button type="button" className="icon-button" title="Rewind to before this" aria-label="Rewind to before this message"
            onClick={() => openPanel("rewind", { key: session, session, to: item.turn })}><Icon name="undo" /></button>
          <button type="button" className="icon-button" title="Fork before this" aria-label="Fork before this message"
            onClick={() => void forkAt(session, item.seq - 1)}><Icon name="fork" /></button>
        </span>
        {item.pictures > 0 && <span className="chip">{plural(item.pictures, "picture")}</span>}
        {item.how && <span className="chip">{item.how === "steer" ? "sent while it ran" : "queued"}</span>}
        <time dateTime={item.ts} title={item.ts}>{clock(item.ts)}</time>
      </div>
    </article>
  );
}

const folds = new Map<string, boolean>();

function Reasoning({ text, live, id }: { text: string; live: boolean; id: string }) {
  const [open, setOpen] = useState(folds.get(id) ?? false);
  return (
    <div className="reasoning">
      <button type="button" aria-expanded={open} onClick={() => { folds.set(id, !open); setOpen(!open); }}>
        <span className={open ? "turn-icon open" : "turn-icon"}><Icon name="chevron" /></span>
        {live ? "Thinking" : "Thought"}{live && <span className="dots" aria-hidden="true" />}
        {!open && <span className="reasoning-peek">{text.trim().split("\n").at(-1)}</span>}
      </button>
      {open && <div className="reasoning-text" dir="auto">{text}</div>}
    </div>
  );
}

function Assistant({ item, session }: { item: AssistantItem; session: string }) {
  const live = !item.done;
  return (
    <article className={live ? "assistant live" : "assistant"} aria-label="Assistant" aria-busy={live}>
      {item.reasoning && <Reasoning text={item.reasoning} live={live && !item.text} id={session + item.key} />}
      {item.text && <Markdown text={item.text} />}
      {item.leftOut > 0 && <p className="dim">{item.leftOut} bytes of this answer are left out.</p>}
      {item.cut && <p className="dim">Cut off here.</p>}
      {item.done && item.text && <div className="assistant-foot"><CopyButton text={item.text} label="Copy answer" /></div>}
    </article>
  );
}

const Row = memo(function Row({ item, session, asks }: { item: Item; session: string; asks: boolean }) {
  switch (item.kind) {
    case "user": return <User item={item} session={session} />;
    case "assistant": return item.text || item.reasoning ? <Assistant item={item} session={session} /> : null;
    case "tool": return item.call.state === "waiting" ? null : /* the question below shows it */ <ToolCard id={item.key} call={item.call} session={session} changedBy={item.changedBy} />;
    case "permission": return <PermissionCard item={item} session={session} keys={asks} />;
    case "question": return <QuestionCard item={item} session={session} keys={asks} />;
    case "notice": return (
      <div className={`notice ${item.tone}`} role="note">
        <span>{item.text}</span>
        {item.detail && <details><summary>more</summary><pre tabIndex={0}>{item.detail}</pre></details>}
      </div>
    );
    case "end": {
      const parts = [usageText(item.usage), item.durationMs !== null ? duration(item.durationMs) : ""].filter(Boolean);
      return parts.length > 0 ? <div className="turn-end" title={item.ts}>{parts.join(" · ")}</div> : null;
    }
  }
});

/** The agent's steps; folded on short screens and while a question waits, which needs the room. */
export function TodoList({ todo, asked }: { todo: readonly Todo[]; asked: boolean }) {
  const [open, setOpen] = useState(window.innerHeight >= 700);
  const done = todo.filter((t) => t.state === "done").length;
  if (todo.length === 0 || done === todo.length) return null;
  const active = todo.find((t) => t.state === "active");
  return (
    <details className="todo" open={open && !asked} onToggle={(e) => { if (!asked) setOpen(e.currentTarget.open); }}>
      <summary>Steps <span className="dim">{done} of {todo.length}</span> <span className="todo-now" dir="auto">{active?.text}</span></summary>
      <ul>{todo.map((t, i) => <li key={i} data-state={t.state}><Icon name={t.state === "done" ? "check" : t.state === "active" ? "play" : "more"} /> {t.text}</li>)}</ul>
    </details>
  );
}

const NEAR = 48; // pixels from the end that still count as being there
const offsets = new Map<string, number>(); // where each session was left; absent: at its end
const followers = new Map<string, () => void>();

/** Show the end of a session's conversation, and what comes: who speaks wants to see the answer. */
export const follow = (id: string): void => followers.get(id)?.();

export function ConversationView({ id }: { id: string }) {
  const snap = useConversation(id);
  const list = useRef<VListHandle>(null);
  const stick = useRef(!offsets.has(id));
  const touched = useRef(0); // when the reader's hand was last on it
  const leaving = useRef(false); // the reader turned back, and it is still at the end
  const sizes = useRef(""); // of content and viewport at the last scroll event
  const [away, setAway] = useState(false);
  const [answerable, setAnswerable] = useState(false); // the answers to the question are on screen
  const n = snap.items.length;
  const count = useRef(n);
  count.current = n;
  const toEnd = () => {
    stick.current = true;
    leaving.current = false;
    list.current?.scrollToIndex(count.current - 1, { align: "end" });
  };
  useEffect(() => {
    followers.set(id, toEnd);
    return () => void followers.delete(id);
  }, [id]);

  useLayoutEffect(() => {
    if (stick.current) toEnd();
  }, [snap, n]);
  const root = useRef<HTMLElement>(null);
  useEffect(() => { // a wider or taller window, a dock that opens, a composer that grows
    let frame = 0;
    const watch = new ResizeObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => { if (stick.current) toEnd(); });
    });
    watch.observe(root.current!);
    return () => { cancelAnimationFrame(frame); watch.disconnect(); };
  }, []);
  useEffect(() => {
    const at = offsets.get(id);
    if (at !== undefined && n > 0) list.current?.scrollTo(at);
  }, [id, n > 0]);

  const question = firstAsked(snap);
  const asked = question >= 0;
  const touch = () => { touched.current = performance.now(); };
  const leave = () => {
    const l = list.current;
    if (l && l.scrollSize > l.viewportSize) { // else there is nowhere to go
      stick.current = false;
      leaving.current = true;
    }
  };
  const onKey = (e: React.KeyboardEvent) => {
    touch();
    if (["Home", "PageUp", "ArrowUp"].includes(e.key)) leave();
    if (!(e.target as HTMLElement).classList.contains("scroller") || (e.key !== "Home" && e.key !== "End")) return;
    e.preventDefault(); // the browser's own way stops where rows were not measured yet
    list.current?.scrollToIndex(e.key === "Home" ? 0 : n - 1, { align: e.key === "Home" ? "start" : "end" });
  };
  const onScroll = (offset: number) => {
    const l = list.current;
    if (!l) return;
    const held = performance.now() - touched.current < 600; // the reader moves it: then near is not there
    const atEnd = l.scrollSize - l.viewportSize - offset < (held ? 2 : NEAR);
    const resized = sizes.current !== `${l.scrollSize} ${l.viewportSize}`;
    sizes.current = `${l.scrollSize} ${l.viewportSize}`;
    if (!atEnd && stick.current && resized && !held) { // not the reader's doing
      toEnd();
      return;
    }
    if (atEnd && leaving.current && held) return; // it tells of a scroll from before
    leaving.current = false;
    stick.current = atEnd;
    setAway(!atEnd);
    const below = asked ? l.getItemOffset(question) + l.getItemSize(question) - offset : 0;
    setAnswerable(below > NEAR && below <= l.viewportSize);
    if (atEnd) offsets.delete(id);
    else offsets.set(id, offset);
  };

  return (
    <section ref={root} className="conversation" role="region" aria-label="Conversation" data-session={id}
      onWheel={(e) => { touch(); if (e.deltaY < 0) leave(); }} onTouchMove={touch} onPointerDown={touch} onKeyDown={onKey}>
      {n === 0 && !snap.loading && (
        <div className="empty">
          <h2>{snap.error ? "The conversation could not be read" : "Nothing said yet"}</h2>
          <p>{snap.error ?? "Say what you want done. Everything the agent does shows up here as it happens."}</p>
        </div>
      )}
      {n > 0 && (
        <div className="talk">
          <VList ref={list} data={snap.items} className="scroller" onScroll={onScroll} tabIndex={0} aria-label="Messages" role="group" bufferSize={400}>
            {(item) => <div key={item.key} className={`row row-${item.kind}`}><div className="column"><Boundary what="This part of the conversation" owner="afloat" reset={item}><Row item={item} session={id} asks={item === snap.items[question]} /></Boundary></div></div>}
          </VList>
          {away && !(asked && answerable) && (
            <button type="button" className="to-end" onClick={() => (asked ? list.current?.scrollToIndex(question, { align: "end" }) : toEnd())}>
              <Icon name="down" /> {asked ? "To the question" : snap.turn ? "Follow" : "To the end"}
            </button>
          )}
        </div>
      )}
      <TodoList todo={snap.todo} asked={asked} />
    </section>
  );
}
