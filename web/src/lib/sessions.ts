// The sessions of the hub, newest first, kept by events.
import type { SessionRow } from "./answers";
import { call, Problem } from "./client";
import { onEvent, onResync } from "./events";
import { createStore } from "./store";

export interface Sessions {
  rows: readonly SessionRow[];
  next: string | null;
  loaded: boolean;
}
export const sessions = createStore<Sessions>({ rows: [], next: null, loaded: false });

function put(row: SessionRow): void {
  sessions.set((s) => {
    const at = s.rows.findIndex((r) => r.id === row.id);
    const rows = at < 0 ? [row, ...s.rows] : s.rows.with(at, row);
    rows.sort((a, b) => b.started_at.localeCompare(a.started_at));
    return { ...s, rows };
  });
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
        if (e instanceof Problem && e.status === 404) {
          sessions.set((s) => ({ ...s, rows: s.rows.filter((r) => r.id !== one) }));
        }
      });
    }
  }, 80);
}

async function load(): Promise<void> {
  const page = await call("session.list", { limit: 100 });
  sessions.set({ rows: page.sessions, next: page.next, loaded: true });
}

export async function loadMore(): Promise<void> {
  const { next } = sessions.get();
  if (!next) return;
  const page = await call("session.list", { limit: 100, cursor: next });
  sessions.set((s) => ({
    ...s, next: page.next, rows: [...s.rows, ...page.sessions.filter((r) => !s.rows.some((o) => o.id === r.id))],
  }));
}

export const findSession = (id: string | null): SessionRow | undefined => sessions.get().rows.find((r) => r.id === id);
export const noteSession = put;

/** What a person calls it. */
export function sessionTitle(row: SessionRow): string {
  return row.title || (row.bot ? `${row.bot} run` : row.prompt_summary) || "New session";
}

export function startSessions(): void {
  onResync(() => void load().catch(() => undefined));
  const quiet = new Set(["message.delta", "tool.progress", "tool.called", "tool.completed", "usage.updated"]);
  onEvent("*", (e) => {
    if (!e.session || quiet.has(e.type)) return;
    const state = e.type === "session.ended" ? "ended" : e.type === "session.updated" ? e.state : undefined;
    const row = findSession(e.session);
    if (row && typeof state === "string") put({ ...row, state: state as SessionRow["state"] }); // at once; the rest follows
    refresh(e.session);
  });
}
