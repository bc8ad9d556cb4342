// Terminals of the hub: each runs in a keeper process that outlives the page and the hub.
import { request } from "./client";
import { onEvent, onResync } from "./events";
import { createStore } from "./store";
import { openPanel } from "./ui";

export interface TerminalRow {
  id: string;
  name?: string | null;
  title?: string | null;
  cmd?: string;
  cwd?: string | null;
  state?: string;
  status?: number | null;
  started_at?: string;
  [more: string]: unknown;
}
/** null: not asked for yet. */
export const terminals = createStore<readonly TerminalRow[] | null>(null);

/** While the hub is away what was known stays. */
export const loadTerminals = () => request("GET", "/pty").then((a) => terminals.set((a as { ptys: TerminalRow[] }).ptys));

export const terminalName = (t: TerminalRow): string => t.title || t.name || t.cmd || t.id;

/** Start a shell in a directory and show it. */
export async function newTerminal(cwd: string | null): Promise<void> {
  const made = (await request("POST", "/pty", { cmd: "bash", args: ["-l"], ...(cwd ? { cwd } : {}) })) as TerminalRow;
  await loadTerminals();
  openPanel("terminal", { key: made.id, id: made.id }, terminalName(made));
}

export function startTerminals(): void {
  const again = () => void loadTerminals().catch(() => undefined);
  onResync(() => { if (terminals.get()) again(); });
  onEvent("pty.*", again);
}
