// What plugins and the page's own commands get of the page: `useHub()`.
import { call, request } from "./client";
import { onEvent } from "./events";
import { useStore } from "./store";
import { currentSession, openPanel, toast, type ToastKind } from "./ui";

export interface Hub {
  /** Call the hub: parsed JSON (or text), or an exception with the problem's `code` and `detail`. */
  api(path: string, init?: { method?: string; body?: unknown; signal?: AbortSignal }): Promise<unknown>;
  /** Watch events of the hub by type (`turn.completed`, `plugin.*`, `*`); returns what ends it. */
  on(type: string, fn: (event: HubEvent) => void): () => void;
  openPanel(id: string, params?: Record<string, unknown>): void;
  toast(text: string, kind?: ToastKind): void;
  /** Id of the session on screen, or null. */
  readonly session: string | null;
}
export interface HubEvent {
  id?: number;
  type: string;
  ts: string;
  session?: string;
  seq?: number;
  [more: string]: unknown;
}

export const hub: Hub & { call: typeof call } = {
  api: (path, init) => request(init?.method ?? "GET", path, init?.body, { signal: init?.signal }),
  call,
  on: onEvent,
  openPanel: (id, params) => openPanel(id, params),
  toast: (text, kind) => void toast(String(text), kind), // a plugin may give its error as it is
  get session() {
    return currentSession.get();
  },
};

/** The hub for a component; it renders again when another session is chosen. */
export function useHub(): Hub {
  useStore(currentSession);
  return hub;
}
