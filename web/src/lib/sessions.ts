// The sessions of the hub, newest first, kept by events.
import type { SessionRow } from "./answers";
import { call, Problem } from "./client";
import { useEffect } from "react";
import { onEvent, onOnline, onResync } from "./events";
import { createStore, useStore } from "./store";
import { currentSession, toast } from "./ui";

export interface Sessions {
  rows: readonly SessionRow[];
  next: string | null;
  loaded: boolean;
}
export const sessions = createStore<Sessions>({ rows: [], next: null, loaded: false });
/** The session that was asked for and that the hub does not have. */
export const lostSession = createStore<string | null>(null);

/** Each session once, the newest first; of two rows of one session the first counts. */
function ordered(rows: readonly SessionRow[]): SessionRow[] {
  const seen = new Set<string>();
  return rows.filter((r) => !seen.has(r.id) && seen.add(r.id)).sort((a, b) => b.started_at.localeCompare(a.started_at));
}

const put = (row: SessionRow): void => sessions.set((s) => ({ ...s, rows: ordered([row, ...s.rows]) }));

/** The hub does not have it, or not any more: then nobody can stay in it. */
function lose(id: string): void {
  const row = findSession(id);
  sessions.set((s) => ({ ...s, rows: s.rows.filter((r) => r.id !== id) }));
  if (currentSession.get() !== id) return;
  if (!row) {
    lostSession.set(id);
    return;
  }
  currentSession.set(null);
  toast(`${sessionTitle(row)} was deleted`);
}

const wanted = new Set<string>();
let timer = 0;

/** Read rows again, many events later only once. */
function refresh(id: string): void {
  wanted.add(id);
  timer ||= window.setTimeout(() => {
    timer = 0;
    for (const one of [...wanted]) {
      wanted.delete(one);
      call("session.show", { id: one }).then(put, (e: unknown) => {
        if (e instanceof Problem && e.status === 404) lose(one);
      });
    }
  }, 80);
}

/** The newest; of the older ones those that work or wait for somebody, and the one on screen. */
async function load(): Promise<void> {
  const page = await call("session.list", { limit: 100 });
  sessions.set({ rows: page.sessions, next: page.next, loaded: true });
  needCurrent();
  if (page.next === null) return;
  const busy = await Promise.all(["waiting", "running"].map((state) => call("session.list", { state, limit: 100 })));
  sessions.set((s) => ({ ...s, rows: ordered([...s.rows, ...busy.flatMap((b) => b.sessions)]) }));
}

function needCurrent(): void {
  const id = currentSession.get();
  if (id && !findSession(id) && sessions.get().loaded) refresh(id);
}

let loading: Promise<void> | null = null;

export function loadMore(): Promise<void> {
  const { next } = sessions.get();
  if (!next) return Promise.resolve();
  loading ??= call("session.list", { limit: 200, cursor: next })
    .then((page) => sessions.set((s) => ({ ...s, next: page.next, rows: ordered([...s.rows, ...page.sessions]) })))
    .finally(() => { loading = null; });
  return loading;
}

/** Load all that are older, page by page, while `on`: somebody searches. */
export function useAllSessions(on: boolean): void {
  const next = useStore(sessions, (s) => s.next);
  useEffect(() => { if (on && next) void loadMore().catch(() => undefined); }, [on, next]);
}

export const findSession = (id: string | null): SessionRow | undefined => sessions.get().rows.find((r) => r.id === id);
export const noteSession = put;

/** What a person calls it. */
export function sessionTitle(row: SessionRow): string {
  return row.title || (row.bot ? `${row.bot} run` : row.prompt_summary) || "New session";
}

export function startSessions(): void {
  let failed = false;
  const again = () => void load().then(() => { failed = false; }, () => { failed = true; });
  onResync(again);
  onOnline(() => { if (failed) again(); });
  currentSession.subscribe(needCurrent);
  const quiet = new Set(["message.delta", "tool.progress", "tool.called", "tool.completed", "usage.updated"]);
  onEvent("*", (e) => {
    if (!e.session || quiet.has(e.type)) return;
    const state = e.type === "session.ended" ? "ended" : e.type === "session.updated" ? e.state : undefined;
    const row = findSession(e.session);
    if (row && typeof state === "string") put({ ...row, state: state as SessionRow["state"] }); // at once; the rest follows
    refresh(e.session);
  });
}
