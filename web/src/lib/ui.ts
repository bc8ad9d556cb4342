// What the page shows: theme, the chosen session, the open left tab, toasts, the palette, panels to open.
import { createKept, createStore } from "./store";

export type Theme = "system" | "light" | "dark";
export const theme = createKept<Theme>("theme", "system", true);

/** The session on screen; also in the address, so that a reload and the back button keep it. */
export const currentSession = createStore<string | null>(null);
export const leftTab = createKept("leftTab", "sessions");
/** On narrow screens the sidebar and the dock cover the conversation; one at a time. */
export const cover = createStore<"none" | "sidebar" | "dock">("none");
export const sidebarShown = createKept("sidebarShown", true);
export const sidebarWidth = createKept("sidebarWidth", 272);
export const dockWidth = createKept("dockWidth", 560);

// ---- toasts -------------------------------------------------------------------------------------
export type ToastKind = "info" | "success" | "warning" | "error";
export interface Toast {
  id: number;
  text: string;
  kind: ToastKind;
  /** Stays until it is dismissed. */
  sticky: boolean;
  action?: { label: string; run(): void };
}
export const toasts = createStore<Toast[]>([]);
let nextToast = 1;

export function dismiss(id: number): void {
  toasts.set((all) => all.filter((t) => t.id !== id));
}

/** Show a line below the head of the conversation; errors are announced at once. The same text is not shown twice at a time. */
export function toast(
  text: string, kind: ToastKind = "info", more: { sticky?: boolean; action?: Toast["action"] } = {},
): number {
  const same = toasts.get().find((t) => t.text === text && t.kind === kind);
  if (same) return same.id;
  const made: Toast = { id: nextToast++, text, kind, sticky: more.sticky ?? false, action: more.action };
  toasts.set((all) => {
    const passing = all.filter((t) => !t.sticky).slice(0, -4); // too many: the oldest go, but none that has to be answered
    return [...all.filter((t) => !passing.includes(t)), made];
  });
  return made.id;
}

// ---- palette and panels -------------------------------------------------------------------------
export const palette = createStore<{ open: boolean; mode: "commands" | "sessions" | "files"; query: string }>({
  open: false, mode: "commands", query: "",
});

export interface PanelRequest {
  /** A panel of the registry, by id or key. */
  panel: string;
  params: Record<string, unknown>;
  title?: string;
  /** Leave what is in front there. */
  quiet?: boolean;
}
type PanelOpener = (request: PanelRequest) => void;
let opener: PanelOpener | null = null;
const waiting: PanelRequest[] = [];
/** True once something was opened: the dock's code is loaded then, and not before. */
export const dockWanted = createStore(false);

/** Open a panel in the dock, or bring it to the front when it is open. */
export function openPanel(panel: string, params: Record<string, unknown> = {}, title?: string, quiet = false): void {
  const request = { panel, params, title, quiet };
  dockWanted.set(true);
  if (!quiet) cover.set("dock");
  if (opener) opener(request);
  else waiting.push(request);
}

/** What the dock shows: the panels by key, and the one in front. */
export const panelsOpen = createStore<{
  panels: readonly { key: string; title: string; params: Record<string, unknown>; update(params: Record<string, unknown>): void; close(): void }[];
  active: string | null;
  activeParams: Record<string, unknown>;
}>({ panels: [], active: null, activeParams: {} });

/** What keys and the palette do to the panel in front; null: there is no dock. */
export interface DockActs {
  close(): void;
  next(): void;
  split(to: "right" | "below"): void;
  maximise(): void;
}
export const dockActs = createStore<DockActs | null>(null);

/** The dock says that it is there; it gets what was asked for before. */
export function setOpener(fn: PanelOpener | null): void {
  opener = fn;
  if (fn) for (const request of waiting.splice(0)) fn(request);
}
