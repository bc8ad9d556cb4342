// The page's own contributions, in the same form as a plugin's. Their code is loaded when one is opened.
import type { ComponentType } from "react";
import { later } from "../components/Later";
import { compact, exportSession, fork, interrupt, newSessionDialog } from "../lib/actions";
import { registry, type Command, type Panel, type PanelProps } from "../lib/registry";
import { findSession } from "../lib/sessions";
import { newTerminal } from "../lib/terminals";
import { cover, currentSession, dockActs, leftTab, openPanel, palette, theme, toast, type DockActs } from "../lib/ui";
import { call } from "../lib/client";
import { refreshPlugins } from "../lib/lists";

type Panes = Record<string, unknown>;
const from = (load: () => Promise<Panes>) => (name: string): ComponentType<PanelProps> =>
  later(() => load().then((m) => m[name] as ComponentType<PanelProps>));
const plugins = from(() => import("./plugins"));
const bots = from(() => import("./bots"));
const session = from(() => import("./session"));
const hub = from(() => import("./hub"));

const panels: Panel[] = [
  { id: "plugins", title: "Plugins", component: plugins("PluginsView") },
  { id: "plugin", title: "Plugin", component: plugins("PluginView"), many: true },
  { id: "bot", title: "Bot", component: bots("BotView"), many: true },
  { id: "run", title: "Run", component: bots("RunView"), many: true },
  { id: "session", title: "Session", component: session("SessionView"), many: true },
  { id: "rewind", title: "Rewind", component: session("RewindView"), many: true },
  { id: "terminals", title: "Terminals", component: hub("TerminalsView") },
  { id: "environment", title: "Environment", component: hub("EnvironmentView") },
  { id: "events", title: "Events and logs", component: hub("EventsView") },
  { id: "settings", title: "Settings", component: hub("SettingsView") },
  { id: "help", title: "Keyboard", component: hub("HelpView") },
  { id: "file", title: "File", component: from(() => import("./FileView"))("default"), many: true },
  { id: "terminal", title: "Terminal", component: from(() => import("./TerminalView"))("default"), many: true },
];

const withSession = (fn: (id: string) => unknown) => () => {
  const id = currentSession.get();
  return id ? fn(id) : toast("Choose a session first", "warning");
};
const withDock = (fn: (dock: DockActs) => void) => () => {
  const dock = dockActs.get();
  return dock ? fn(dock) : toast("No panel is open", "warning");
};
const show = (tab: string) => () => { leftTab.set(tab); cover.set("sidebar"); document.getElementById(`tab-${tab}`)?.focus(); };

const commands: Command[] = [
  { id: "session.new", title: "New session", shortcut: "Ctrl+J", run: () => newSessionDialog.set(true) },
  { id: "session.goto", title: "Go to session", run: () => palette.set({ open: true, mode: "sessions", query: "" }) },
  { id: "file.find", title: "Find file", run: () => palette.set({ open: true, mode: "files", query: "" }) },
  { id: "turn.stop", title: "Stop the turn", shortcut: "Esc", run: withSession(interrupt) },
  { id: "session.fork", title: "Fork session", run: withSession(fork) },
  { id: "session.rewind", title: "Rewind", run: withSession((id) => openPanel("rewind", { key: id, session: id })) },
  { id: "session.settings", title: "Session settings", run: withSession((id) => openPanel("session", { key: id, session: id })) },
  { id: "session.compact", title: "Compact conversation", run: withSession(compact) },
  { id: "session.export", title: "Export conversation", run: withSession(exportSession) },
  { id: "plugins.reload", title: "Reload plugins", run: async () => {
    const report = await call("reload", {});
    refreshPlugins();
    toast(`Generation ${report.generation}: ${report.changed.length} changed, ${report.failed.length} failed`, report.ok ? "success" : "error");
  } },
  { id: "bot.new", title: "New bot", run: () => openPanel("bot", { key: "", bot: "" }) },
  { id: "terminal.new", title: "New terminal", run: () => {
    const row = findSession(currentSession.get());
    return newTerminal(row?.worktree ?? row?.working_dir ?? null);
  } },
  { id: "panel.close", title: "Panel: close", run: withDock((d) => d.close()) },
  { id: "panel.next", title: "Panel: next", run: withDock((d) => d.next()) },
  { id: "panel.right", title: "Panel: move to the right", run: withDock((d) => d.split("right")) },
  { id: "panel.below", title: "Panel: move below", run: withDock((d) => d.split("below")) },
  { id: "panel.maximise", title: "Panel: maximise or restore", run: withDock((d) => d.maximise()) },
  { id: "show.sessions", title: "Show sessions", run: show("sessions") },
  { id: "show.files", title: "Show files", run: show("files") },
  { id: "show.bots", title: "Show bots", run: show("bots") },
  { id: "theme.dark", title: "Theme: dark", run: () => theme.set("dark") },
  { id: "theme.light", title: "Theme: light", run: () => theme.set("light") },
  { id: "theme.system", title: "Theme: as the system", run: () => theme.set("system") },
];

export function registerOwn(): void {
  registry.replace("afloat", { panels, commands });
}
