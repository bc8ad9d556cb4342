// What a person can do to sessions, in one place: the composer's `/` commands, menus and the palette call these.
import { useMemo } from "react";
import type { SessionRow } from "./answers";
import { call, explain } from "./client";
import { conversation } from "./conversation";
import { usageText } from "./format";
import { findSession, noteSession, sessions, sessionTitle } from "./sessions";
import { createKept, createStore, useStore } from "./store";
import { currentSession, openPanel, palette, toast } from "./ui";

/** Where new sessions work: the last choice, until `afloat open` is typed in another directory. */
export const workingDir = createKept("workingDir", "");
const opened = createKept("openedDir", "");
const startDir = document.querySelector<HTMLMetaElement>("meta[name=afloat-dir]")?.content ?? "";
if (startDir !== "" && startDir !== opened.get()) {
  opened.set(startDir);
  workingDir.set(startDir);
}
export const newSessionDialog = createStore(false);

/** Directories that were worked in, the last choice first, then those of sessions, the newest first. */
export function useDirs(): string[] {
  const last = useStore(workingDir);
  const { rows } = useStore(sessions);
  return useMemo(() => {
    const all = [last, ...rows.map((r) => (r.bot ? "" : r.working_dir ?? ""))];
    return [...new Set(all)].filter((d) => d !== "" && d !== "/").slice(0, 12);
  }, [last, rows]);
}

/** Run it, and say what went wrong. */
export async function attempt<T>(what: Promise<T>, done?: string): Promise<T | undefined> {
  try {
    const answer = await what;
    if (done) toast(done, "success");
    return answer;
  } catch (e) {
    toast(explain(e), "error");
    return undefined;
  }
}

export async function newSession(params: { working_dir?: string; permission?: string; provider?: string; model?: string; sandbox?: string }): Promise<SessionRow | undefined> {
  const row = await attempt(call("session.new", params));
  if (row) {
    if (params.working_dir) workingDir.set(params.working_dir);
    else toast("No directory was chosen: this session works in / and can only read. Ctrl+J begins one elsewhere.", "warning");
    noteSession(row);
    currentSession.set(row.id);
  }
  return row;
}

let sequence = 0;
const onceKey = (): string => `page-${Date.now().toString(36)}-${(sequence++).toString(36)}-${Math.random().toString(36).slice(2, 10)}`;

/** A picture to show to the model: base64 without a prefix. */
export interface Picture {
  name: string;
  data: string;
}

/** Say something: begins a turn, steers the one that runs, or queues behind it. */
export async function send(id: string, text: string, how: "send" | "steer" | "queue", images: readonly Picture[] = []): Promise<void> {
  if (how === "steer" && images.length === 0) {
    try {
      await call("session.steer", { id, text });
      return;
    } catch (e) {
      if ((e as { code?: string }).code !== "NO_TURN") throw e; // it has just ended: begin the next one
    }
  }
  const shown = images.length > 0 ? images.map(({ name, data }) => ({ name, data })) : undefined;
  await call("session.message", { id, text, images: shown }, { once: onceKey() });
}

export const interrupt = (id: string) => attempt(call("session.interrupt", { id }));
export const rename = (id: string, title: string) => attempt(call("session.patch", { id, title }).then(noteSession));
export const setPermission = (id: string, permission: string) =>
  attempt(call("session.patch", { id, permission }).then(noteSession), `Permission: ${permission}`);
export const setModel = (id: string, provider: string | undefined, model: string) =>
  attempt(call("session.patch", { id, provider, model }).then(noteSession), `Model: ${model}`);
export const compact = (id: string) => attempt(call("session.compact", { id }), "Compacting");

export async function fork(id: string): Promise<void> {
  const row = await attempt(call("session.fork", { id }), "Forked: you are in the copy now");
  if (row) {
    noteSession(row);
    currentSession.set(row.id);
  }
}

export async function end(id: string): Promise<void> {
  await attempt(call("session.end", { id }), "Session ended");
}

export async function purge(id: string): Promise<void> {
  if (await attempt(call("session.end", { id, purge: true }), "Session deleted")) {
    sessions.set((s) => ({ ...s, rows: s.rows.filter((r) => r.id !== id) }));
    if (currentSession.get() === id) currentSession.set(null);
  }
}

/** The conversation as a Markdown file. */
export function exportSession(id: string): void {
  const row = findSession(id);
  const parts = [`# ${row ? sessionTitle(row) : id}`, ""];
  for (const item of conversation(id).snapshot().items) {
    if (item.kind === "user") parts.push(`**You:** ${item.text}`, "");
    else if (item.kind === "assistant" && item.text) parts.push(item.text, "");
    else if (item.kind === "tool") parts.push(`> ${item.call.tool} ${JSON.stringify(item.call.input)}`, "");
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([parts.join("\n")], { type: "text/markdown" }));
  link.download = `session-${id}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export interface Slash {
  name: string;
  takes?: string;
  help: string;
  run(session: string | null, rest: string): unknown;
}
const needs = (fn: (id: string, rest: string) => unknown) => (id: string | null, rest: string) =>
  id ? fn(id, rest) : toast("Choose a session first", "warning");

/** The commands of the chat, here. */
export const slashes: Slash[] = [
  { name: "help", help: "keys and commands", run: () => openPanel("help") },
  { name: "new", help: "begin a session", run: () => newSessionDialog.set(true) },
  { name: "model", takes: "[PROVIDER/]MODEL", help: "change the model", run: needs((id, rest) => {
    if (!rest) { openPanel("session", { key: id, session: id }); return; }
    const [a, b] = rest.includes("/") ? [rest.slice(0, rest.indexOf("/")), rest.slice(rest.indexOf("/") + 1)] : [undefined, rest];
    return setModel(id, a, b);
  }) },
  { name: "permission", takes: "ask|edits|plan|auto|deny", help: "what runs without asking", run: needs((id, rest) => rest ? setPermission(id, rest) : openPanel("session", { key: id, session: id })) },
  { name: "plugin", help: "the plugins", run: () => openPanel("plugins") },
  { name: "resume", help: "go to another session", run: () => palette.set({ open: true, mode: "sessions", query: "" }) },
  { name: "rewind", help: "files and conversation back to before a turn", run: needs((id) => openPanel("rewind", { key: id, session: id })) },
  { name: "compact", help: "replace earlier messages by a summary", run: needs((id) => compact(id)) },
  { name: "cost", help: "tokens and cost so far", run: needs((id) => toast(usageText(findSession(id)?.usage ?? null) || "no usage yet")) },
  { name: "export", help: "save the conversation as Markdown", run: needs((id) => exportSession(id)) },
  { name: "fork", help: "a copy of this session to try something in", run: needs((id) => fork(id)) },
  { name: "rename", takes: "TITLE", help: "give the session a title", run: needs((id, rest) => rest ? rename(id, rest) : toast("/rename TITLE", "warning")) },
  { name: "end", help: "end this session", run: needs((id) => end(id)) },
];
