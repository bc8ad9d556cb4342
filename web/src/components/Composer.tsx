// The place to write. Enter sends, or steers the turn that runs; Alt+Enter queues behind it, or makes a new
// line; Shift+Enter always makes one. `/` completes commands and the words after them, `@` files and resources of MCP
// servers, the arrow keys walk
// through what was said before. A draft stays with its session.
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { Icon } from "./Icon";
import { follow, useConversation, waitsFor } from "./Conversation";
import { interrupt, newSession, type Picture, newSessionDialog, send, slashes, useDirs } from "../lib/actions";
import type { SessionRow } from "../lib/answers";
import { explain, Problem } from "../lib/client";
import { begins, commands, runCommand, wordsOf } from "../lib/commands";
import { conversation } from "../lib/conversation";
import { link } from "../lib/events";
import { allFiles, fuzzy } from "../lib/files";
import { shortPath } from "../lib/format";
import { addresses, withResources } from "../lib/resources";
import { lostSession } from "../lib/sessions";
import { createKept, createStore, useStore } from "../lib/store";
import { currentSession, dismiss, toast } from "../lib/ui";

const drafts = createKept<Record<string, string>>("drafts", {}, true);
/** The key comes from the address, so it may be "constructor". */
const kept = <T,>(all: Record<string, T>, key: string): T | undefined => (Object.hasOwn(all, key) ? all[key] : undefined);
const attached = createStore<Record<string, readonly Picture[]>>({}); // pictures of a draft
const NONE: readonly Picture[] = [];
const HOME = "new"; // the draft of no session

const changePictures = (key: string, change: (all: readonly Picture[]) => readonly Picture[]): void =>
  attached.set((a) => ({ ...a, [key]: change(kept(a, key) ?? NONE) }));

/** Put a text into the message of a session (null: of the next one), and the focus there. */
export function writeDraft(session: string | null, text: string): void {
  drafts.set((d) => ({ ...d, [session ?? HOME]: text }));
  document.querySelector<HTMLElement>("[aria-label=Message]")?.focus();
}

/** Add a file to the message of the session on screen. */
export function mention(path: string): void {
  const key = currentSession.get() ?? HOME;
  const text = kept(drafts.get(), key) ?? "";
  writeDraft(key, `${text}${text === "" || /\s$/.test(text) ? "" : " "}@${path} `);
}

interface Suggestion {
  label: string;
  detail?: string;
  /** What the text becomes, and where the caret is then. */
  text: string;
  caret?: number;
  /** Send it at once. */
  runs?: boolean;
  /** Enter sends what is typed; Tab takes this. */
  tab?: boolean;
}

/** The word before the caret that asks for completion. */
function ask(text: string, caret: number): { kind: "/" | "@" | " "; word: string; from: number } | null {
  const before = text.slice(0, caret);
  const slash = /^\/([\w:@.-]*)$/.exec(before);
  if (slash) return { kind: "/", word: slash[1]!, from: 0 };
  const file = /(^|\s)@([^\s@]*)$/.exec(before);
  if (file) return { kind: "@", word: file[2]!, from: caret - file[2]!.length - 1 };
  const rest = /^\/[\w:@.-]+\s(?:.*\s)?(\S*)$/.exec(before);
  return rest ? { kind: " ", word: rest[1]!, from: caret - rest[1]!.length } : null;
}

function useSuggestions(text: string, caret: number, dir: string | null): Suggestion[] {
  const [found, setFound] = useState<Suggestion[]>([]);
  const wanted = ask(text, caret);
  const { kind, word, from } = wanted ?? { kind: "", word: "", from: 0 };
  useEffect(() => {
    let on = true;
    if (kind === "/") {
      const own = slashes.filter((s) => s.name.startsWith(word)).map((s) => ({
        label: `/${s.name}`, detail: s.takes ? `${s.takes}: ${s.help}` : s.help, text: `/${s.name}${s.takes ? " " : ""}`, runs: !s.takes,
      }));
      setFound(own);
      void commands(word === "").then((all) => {
        if (on) setFound([...own, ...all.filter((c) => begins(c, word)).map((c) => ({ label: `/${c.name}`, detail: c.help, text: `/${c.name} ` }))]);
      }, () => undefined);
    } else if (kind === " ") {
      setFound((old) => old.filter((s) => s.tab)); // the names of commands: Enter would take one and erase the words
      const [name, ...words] = text.slice(1, from).trim().split(/\s+/);
      void (slashes.some((s) => s.name === name) ? Promise.resolve([]) : wordsOf(name!, words, word)).then((all) => {
        if (on) setFound(all.map((v) => ({ label: v, text: `${text.slice(0, from)}${v} ${text.slice(caret)}`, caret: from + v.length + 1, tab: true })));
      }, () => { if (on) setFound([]); });
    } else if (kind === "@" && dir) {
      const put = (label: string, end: string): Suggestion => ({ label, text: `${text.slice(0, from)}@${label}${end}${text.slice(caret)}`, caret: from + label.length + end.length + 1 });
      if (word.includes(":")) setFound([]); // a server may take its time: Enter must not take what stood there before
      void Promise.all([allFiles(dir), addresses(word).catch(() => [])]).then(([names, more]) => {
        if (on) setFound([...fuzzy(word, names, (n) => n, 8).map((n) => put(n, " ")), ...more.slice(0, 8).map((a) => put(a.name, a.whole ? " " : ""))]);
      });
    } else setFound((old) => (old.length === 0 ? old : []));
    return () => { on = false; };
  }, [kind, word, from, dir, text, caret]);
  return found;
}

/** How full the model's context is, once that matters. */
function Context({ id }: { id: string }) {
  const { context } = useConversation(id);
  if (!context) return null;
  const percent = Math.round((100 * context.used) / context.window);
  const text = `${context.used} of ${context.window} tokens; /compact makes room`;
  return <span className={percent >= 80 ? "chip warning" : "dim context"} title={text}>context {percent}%</span>;
}

function Status({ id }: { id: string }) {
  const snap = useConversation(id);
  if (!snap.turn) return null;
  const last = snap.items.at(-1);
  const asked = waitsFor(snap);
  const words = asked ? `Waiting for your ${asked}`
    : last?.kind === "tool" && last.call.state === "running" ? `Running ${last.call.tool}`
    : last?.kind === "assistant" && !last.done ? (last.text ? "Writing" : "Thinking") : "Waiting for the model";
  return <span className="status-line"><span className="spinner" aria-hidden="true" /> <span className="status-words">{words}</span></span>;
}

/** `row` may come later than `id`: what is typed belongs to the session all the same. */
export function Composer({ id, row }: { id: string | null; row: SessionRow | undefined }) {
  const key = id ?? HOME;
  const text = useStore(drafts, (d) => kept(d, key) ?? "");
  const setText = (next: string) => drafts.set((d) => {
    const { [key]: _, ...rest } = d;
    return next === "" ? rest : { ...rest, [key]: next };
  });
  const area = useRef<HTMLTextAreaElement>(null);
  const [caret, setCaret] = useState(0);
  const [chosen, setChosen] = useState(0);
  const [hidden, setHidden] = useState(false);
  const [past, setPast] = useState(-1); // how far back in what was said; -1: the draft
  const [busy, setBusy] = useState(false);
  const pictures = useStore(attached, (a) => kept(a, key) ?? NONE);
  const setPictures = (change: (all: readonly Picture[]) => readonly Picture[]) => changePictures(key, change);
  const state = useStore(link);
  const dir = useDirs()[0];
  const running = row?.state === "running" || row?.state === "waiting";
  const lost = useStore(lostSession) === id && id !== null && !row;
  const ended = row?.state === "ended" || lost;
  const here = row?.worktree ?? row?.working_dir ?? dir ?? null;
  const found = useSuggestions(text, caret, here);
  const list = hidden ? [] : found;
  const active = list[Math.min(chosen, list.length - 1)];

  useLayoutEffect(() => {
    const a = area.current;
    if (!a) return;
    a.style.height = "auto";
    a.style.height = `${Math.min(a.scrollHeight, Math.max(120, window.innerHeight * 0.4))}px`;
  }, [text, key]);
  const moveTo = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (moveTo.current !== null) area.current?.setSelectionRange(moveTo.current, moveTo.current);
    moveTo.current = null;
  });
  useEffect(() => { setPast(-1); area.current?.focus({ preventScroll: true }); }, [key]);

  const write = (next: string, at = next.length) => {
    setText(next);
    setCaret(at);
    setChosen(0);
    moveTo.current = at; // with the text, before the next key
  };

  const submit = async (said: string, how: "send" | "steer" | "queue") => {
    let words = said.trim();
    if ((words === "" && pictures.length === 0) || (busy && !id) || ended) return;
    const slash = /^\/([\w:@.-]+)(?:\s+([\s\S]*))?$/.exec(words);
    const own = slash && slashes.find((s) => s.name === slash[1]);
    if (own) {
      write("");
      void own.run(id, slash[2]?.trim() ?? "");
      return;
    }
    setBusy(true);
    let target = id;
    const since = id ? conversation(id).heard() : 0;
    const taken = pictures;
    const drop = (at: string) => changePictures(at, (all) => all.filter((p) => !taken.includes(p)));
    const giveBack = (at: string) => changePictures(at, (all) => [...taken, ...all]);
    write(""); // at once: the next message can be typed while this one is on its way
    drop(key);
    setPast(-1);
    try {
      const ran = slash && await runCommand(slash[1]!, slash[2] ?? "", here);
      if (ran && !ran.prompt) { toast(ran.output || "done"); giveBack(key); return; }
      if (slash && !ran) {
        toast(`There is no command /${slash[1]}`, "warning");
        setText(said);
        giveBack(key);
        return;
      }
      words = await withResources(ran?.output ?? words);
      target ??= (await newSession({ working_dir: dir }))?.id ?? null;
      if (!target) throw new Error("there is no session");
      follow(target);
      await send(target, words, how, taken);
    } catch (e) {
      const told = toast(`Not sent: ${explain(e)}`, "error");
      const at = target ?? key; // the session that was made for it is on screen by now
      drafts.set((d) => ({ ...d, [at]: kept(d, at) ? `${said}\n${d[at]}` : said })); // nothing typed is lost
      giveBack(at);
      if (target && e instanceof Problem && e.status === 0 && (await conversation(target).arrived(words, since))) { // nor said twice
        dismiss(told);
        drafts.set((d) => ({ ...d, [at]: (d[at] ?? "").replace(said, "").replace(/^\n/, "") }));
        drop(at);
      }
    } finally {
      setBusy(false);
      const at = document.activeElement;
      if (at === document.body || area.current?.closest(".composer")?.contains(at)) area.current?.focus(); // the user may be elsewhere by now
    }
  };

  const attach = (files: Iterable<File>) => {
    for (const file of files) {
      if (!/^image\/(png|jpeg|gif|webp)$/.test(file.type)) continue;
      const reader = new FileReader();
      reader.onload = () => setPictures((all) => [...all, { name: file.name || "picture.png", data: String(reader.result).replace(/^[^,]*,/, "") }]);
      reader.readAsDataURL(file);
    }
  };

  const accept = (s: Suggestion) => {
    if (s.runs) void submit(s.text, "send");
    else write(s.text, s.caret);
  };

  const walk = (step: 1 | -1): boolean => {
    const a = area.current;
    if (!id || !a) return false;
    const said = conversation(id).snapshot().items.filter((i) => i.kind === "user").map((i) => i.text).reverse();
    const first = a.selectionStart === a.selectionEnd && !text.slice(0, a.selectionStart).includes("\n");
    const last = a.selectionStart === a.selectionEnd && !text.slice(a.selectionEnd).includes("\n");
    const next = past + step;
    if ((step === 1 ? !first : !last) || next < -1 || next >= said.length || (past === -1 && step === 1 && text !== "" )) return false;
    setPast(next);
    write(next === -1 ? "" : said[next]!);
    return true;
  };

  const onKey = (e: React.KeyboardEvent) => {
    if (e.nativeEvent.isComposing) return;
    if (list.length > 0) {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        e.preventDefault();
        setChosen((c) => (c + (e.key === "ArrowDown" ? 1 : list.length - 1)) % list.length);
        return;
      }
      if ((e.key === "Tab" && !e.shiftKey) || (e.key === "Enter" && !e.shiftKey && !e.altKey && !active!.tab)) { e.preventDefault(); accept(active!); return; }
      if (e.key === "Escape") { e.preventDefault(); setHidden(true); return; }
    }
    if (e.key === "Enter" && !e.shiftKey) {
      e.preventDefault();
      if (e.altKey && !running) {
        const at = area.current!.selectionStart;
        write(`${text.slice(0, at)}\n${text.slice(at)}`, at + 1);
      } else void submit(text, running ? (e.altKey ? "queue" : "steer") : "send");
    } else if (e.key === "ArrowUp" && walk(1)) e.preventDefault();
    else if (e.key === "ArrowDown" && past >= 0 && walk(-1)) e.preventDefault();
    else if (e.key === "Escape" && running && id) { e.preventDefault(); void interrupt(id); }
  };

  return (
    <div className="composer">
      {list.length > 0 && (
        <ul className="suggestions" role="listbox" id="suggestions" aria-label="Suggestions">
          {list.map((s, i) => (
            <li key={s.label} id={`suggestion-${i}`} role="option" aria-selected={s === active} onMouseDown={(e) => { e.preventDefault(); accept(s); }}>
              <span className="mono">{s.label}</span>{s.detail && <span className="dim">{s.detail}</span>}
            </li>
          ))}
        </ul>
      )}
      <div className="composer-box" onDragOver={(e) => e.preventDefault()} onDrop={(e) => { e.preventDefault(); attach(e.dataTransfer.files); }}>
        {pictures.length > 0 && (
          <ul className="pictures" aria-label="Pictures">
            {pictures.map((p, i) => <li key={i} className="chip">{p.name} <button type="button" aria-label={`Remove ${p.name}`} onClick={() => setPictures((all) => all.filter((_, at) => at !== i))}>✕</button></li>)}
          </ul>
        )}
        <textarea ref={area} rows={1} dir="auto" aria-label="Message" value={text} disabled={ended}
          placeholder={lost ? "There is no such session" : ended ? "This session has ended. Fork it to continue." : running ? "Enter steers, Alt+Enter queues" : "Message, / for commands, @ for files"}
          aria-controls={list.length > 0 ? "suggestions" : undefined} aria-autocomplete="list"
          aria-activedescendant={active ? `suggestion-${list.indexOf(active)}` : undefined}
          onChange={(e) => { setText(e.target.value); setCaret(e.target.selectionStart); setHidden(false); setChosen(0); setPast(-1); }}
          onPaste={(e) => { if (e.clipboardData.files.length > 0) { e.preventDefault(); attach(e.clipboardData.files); } }}
          onSelect={(e) => setCaret(e.currentTarget.selectionStart)} onKeyDown={onKey} />
        <div className="composer-foot">
          {id ? <Status id={id} /> : (
            <button type="button" className="chip-button" onClick={() => newSessionDialog.set(true)}>
              <Icon name="folder" /> {dir ? shortPath(dir) : "Choose a directory"}
            </button>
          )}
          {row && row.queued > 0 && <span className="chip">{row.queued} queued</span>}
          <span className="grow" />
          {row && <Context id={row.id} />}
          {running ? (
            <>
              {text.trim() !== "" && <button type="button" className="button" onClick={() => void submit(text, "queue")}>Queue</button>}
              <button type="button" className="button stop" aria-label="Stop" title="Stop (Esc)" onClick={() => id && void interrupt(id)}><Icon name="stop" /> Stop</button>
            </>
          ) : (
            <button type="button" className="button primary" aria-label="Send" title="Send (Enter)" disabled={ended || busy || (text.trim() === "" && pictures.length === 0) || state !== "online"}
              onClick={() => void submit(text, "send")}><Icon name="send" /> Send</button>
          )}
        </div>
      </div>
    </div>
  );
}

