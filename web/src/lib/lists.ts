// Plugins, bots and runs: short lists that are read again when an event says that they changed.
import type { BotRow, PluginRow, Report, Run } from "./answers";
import { call } from "./client";
import { conversation } from "./conversation";
import { onEvent, onResync } from "./events";
import { createStore, type Store } from "./store";
import { currentSession, openPanel, toast } from "./ui";

export interface Plugins {
  rows: readonly PluginRow[];
  report: Report | null;
  generation: number;
  loaded: boolean;
}
export const plugins = createStore<Plugins>({ rows: [], report: null, generation: 0, loaded: false });
export const bots = createStore<readonly BotRow[]>([]);
export const runs = createStore<readonly Run[]>([]);

/** Calls of one list fold into one request, and at most one is under way. */
function lazily(load: () => Promise<void>): () => void {
  let state: "idle" | "soon" | "running" | "again" = "idle";
  const go = async () => {
    state = "running";
    await load().catch(() => undefined);
    const again = (state as string) === "again";
    state = "idle";
    if (again) ask();
  };
  const ask = () => {
    if (state === "idle") {
      state = "soon";
      setTimeout(() => void go(), 40);
    } else if (state === "running") state = "again";
  };
  return ask;
}

export const refreshPlugins = lazily(async () => {
  const [list, report] = await Promise.all([call("plugin.list", {}), call("reload.last", {}).catch(() => null)]);
  plugins.set({ rows: list.plugins, report, generation: report?.generation ?? 0, loaded: true });
});
export const refreshBots = lazily(async () => { bots.set((await call("bot.list", {})).bots); });
export const refreshRuns = lazily(async () => { runs.set((await call("run.list", { limit: 50 })).runs); });

export const hubInfo: Store<{ version: string; generation: number } | null> = createStore<{ version: string; generation: number } | null>(null);
const refreshInfo = lazily(async () => { hubInfo.set(await call("health", {})); });

const mainOf = (page: Document): string | null => page.querySelector("script[type=module]")?.getAttribute("src") ?? null;
let outdated = false;

/** The hub may be another program by now, with another page. */
async function comparePage(): Promise<void> {
  const answer = await fetch("/", { headers: { Accept: "text/html" } });
  const there = answer.ok ? mainOf(new DOMParser().parseFromString(await answer.text(), "text/html")) : null;
  if (outdated || there === null || there === mainOf(document)) return;
  outdated = true;
  toast("Afloat was upgraded. This page is of the version before.", "info", { sticky: true, action: { label: "Reload page", run: () => location.reload() } });
}

export function startLists(): void {
  let first = true;
  onResync(() => { if (!first) void comparePage().catch(() => undefined); first = false; });
  onEvent("hub.started", () => void comparePage().catch(() => undefined));
  onResync(() => { refreshPlugins(); refreshBots(); refreshRuns(); refreshInfo(); });
  for (const type of ["generation.committed", "plugin.*", "feature.changed", "config.changed"]) onEvent(type, refreshPlugins);
  onEvent("generation.committed", refreshInfo);
  onEvent("hub.started", () => { refreshInfo(); refreshPlugins(); refreshBots(); refreshRuns(); });
  onEvent("bot.changed", refreshBots);
  onEvent("bot.run.*", () => { refreshRuns(); refreshBots(); });
  onEvent("plugin.needs", (e) => {
    if (e.kind === "page-reload") return; // whoever keeps front plugins asks for that
    toast(`${String(e.plugin)} needs ${String(e.kind)}: ${String(e.reason)}`, "warning", { sticky: true });
  });
  onEvent("plugin.error", (e) => {
    if (e.session) return; // the conversation shows it
    const at = e.path ? `${String(e.path)}${e.line ? `:${String(e.line)}` : ""}` : "";
    const text = e.plugin ? `Plugin ${String(e.plugin)}: ${String(e.message)}` : String(e.message); // without: of the settings
    const session = currentSession.get();
    if (session && e.source !== "front") { // of the server side: it concerns who talks there
      conversation(session).say("warning", text, at);
      return;
    }
    toast(at ? `${text} (${at})` : text, "error", !e.plugin ? {} : {
      action: { label: "Show", run: () => openPanel("plugin", { key: String(e.plugin), name: String(e.plugin) }) },
    });
  });
  onEvent("bot.run.ended", (e) => {
    toast(`${String(e.bot)} has ended: ${String(e.end_reason)}`, e.end_reason === "complete" ? "success" : "warning", {
      action: { label: "Review", run: () => openPanel("run", { key: String(e.run_id), run: String(e.run_id) }) },
    });
  });
}
