// The page as an agent sees and drives it: what is shown goes to `PUT /ui/state`, and `ui.command` events are
// carried out. A command is answered when its effect is there, not when it was begun.
import { explain, request } from "../lib/client";
import { onEvent, onResync } from "../lib/events";
import type { HubEvent } from "../lib/hub";
import { registry } from "../lib/registry";
import { findSession } from "../lib/sessions";
import { currentSession, leftTab, openPanel, panelsOpen, toast, type ToastKind } from "../lib/ui";
import { openSurface, resolveSurface } from "./surface";

// ---- what is shown ------------------------------------------------------------------------------

let timer = 0;
let last = "";

async function tellNow(): Promise<void> {
  clearTimeout(timer);
  const { panels, active } = panelsOpen.get();
  const state = { session: currentSession.get(), left_tab: leftTab.get(), panels: panels.map(({ key, title, params }) => ({ panel: key, title, params })), active_panel: active };
  const text = JSON.stringify(state);
  if (text === last || document.hidden) return;
  last = text;
  await request("PUT", "/ui/state", state).catch(() => { last = ""; });
}

/** Soon: many changes are told once. */
function tellState(): void {
  clearTimeout(timer);
  timer = window.setTimeout(() => void tellNow(), 100);
}

// ---- commands -----------------------------------------------------------------------------------

/** Wait until the dock has it in front, or has it no more; `own`: the one of many that has this key. */
async function shown(key: string, there = true, own?: string): Promise<string> {
  const now = () => {
    const { panels, active, activeParams } = panelsOpen.get();
    return there ? active === key && (own === undefined || activeParams.key === own) : !panels.some((p) => p.key === key);
  };
  for (let i = 0; i < 60 && !now(); i++) await new Promise((done) => setTimeout(done, 50));
  if (!now()) throw new Error(`'${key}' was not ${there ? "opened" : "closed"}`);
  return key;
}

type Params = Record<string, unknown>;
const text = (p: Params, name: string): string => {
  const v = p[name];
  if (typeof v !== "string" || v === "") throw new Error(`'${name}' is missing`);
  return v;
};
const panelOf = (p: Params) => {
  const id = text(p, "panel");
  const panel = registry.find("panels", id);
  if (!panel) throw new Error(`there is no panel '${id}': there are ${registry.list("panels").map((o) => o.key).join(", ")}`);
  return panel;
};

const kinds: Record<string, (p: Params) => Promise<unknown>> = {
  async open_panel(p) {
    const { key, many } = panelOf(p);
    const params = (p.params ?? {}) as Params;
    openPanel(key, params);
    return { opened: await shown(key, true, many && typeof params.key === "string" ? params.key : undefined) };
  },
  async close_panel(p) {
    const { key } = panelOf(p);
    panelsOpen.get().panels.find((o) => o.key === key)?.close();
    return { closed: await shown(key, false) };
  },
  async open_surface(p) {
    return { opened: await shown(await openSurface({ ...p, kind: text(p, "kind") })) };
  },
  async open_file(p) {
    const path = text(p, "path");
    if (await resolveSurface({ ...p, kind: "file", target: path })) return kinds.open_surface!({ ...p, kind: "file", target: path });
    const row = findSession(currentSession.get() ?? "");
    const dir = path.startsWith("/") ? path.slice(0, path.lastIndexOf("/")) || "/" : row?.worktree ?? row?.working_dir;
    if (!dir) throw new Error("a relative path needs a session: navigate to one first");
    const name = path.startsWith("/") ? path.slice(path.lastIndexOf("/") + 1) : path;
    const there = await request("POST", "/tool/read_file", { input: { path: name, limit: 1 }, working_dir: dir }) as { success: boolean; error: string | null };
    if (!there.success) throw new Error(there.error ?? `there is no '${path}'`);
    const key = `${dir}:${name}`;
    openPanel("file", { key, dir, path: name, line: p.line });
    return { opened: await shown(panelOf({ panel: "file" }).key, true, key), path };
  },
  async navigate(p) {
    const id = text(p, "session");
    await request("GET", `/session/${encodeURIComponent(id)}`);
    currentSession.set(id);
    return { session: id };
  },
  async notify(p) {
    const kind = typeof p.kind === "string" && ["info", "success", "warning", "error"].includes(p.kind) ? (p.kind as ToastKind) : "info";
    toast(text(p, "text"), kind);
    return { shown: true };
  },
};

async function carryOut(event: HubEvent): Promise<void> {
  if (document.hidden) await new Promise((done) => setTimeout(done, 300)); // a page that somebody sees comes first
  let answer: { result?: unknown; error?: string };
  try {
    const run = kinds[String(event.kind)];
    if (!run) throw new Error(`this page does not know '${String(event.kind)}'`);
    answer = { result: await run((event.params ?? {}) as Params) };
    await tellNow(); // who looks after the answer sees the effect
  } catch (e) {
    answer = { error: explain(e) };
  }
  request("POST", `/ui/command/${String(event.command)}`, answer).catch(() => undefined);
}

export function startCommands(): void {
  onEvent("ui.command", (e) => void carryOut(e));
  onResync(() => { last = ""; tellState(); });
  for (const store of [currentSession, leftTab, panelsOpen]) store.subscribe(tellState);
  document.addEventListener("visibilitychange", () => { last = ""; tellState(); });
  window.addEventListener("pagehide", () => { // nobody looks any more
    const headers = { "Content-Type": "application/json" };
    if (last !== "") void fetch("/ui/state", { method: "PUT", headers, body: "{}", keepalive: true }).catch(() => undefined);
  });
}
