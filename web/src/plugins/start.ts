// Front plugins: loaded when the page opens, swapped when their files are saved.
//
//     plugin.loaded, .changed, .unloaded, resync ──> GET /front/plugins ──> for each whose hash is another:
//         style and module are loaded beside the old ones ──> checked ──> still the newest? ──> swapped in one step
//                          └ fails: the old version stays, a toast says so, the hub is told (`plugin show`)
//
// What a plugin contributes is replaced as a whole; its components keep their identity, and with it their state
// (family.ts). A provider wraps the whole page: another one in its place would throw the page's state away, so a changed
// one is not taken, and the person is offered to load the page again.
import type { FrontPlugin, LifeEvent } from "../../sdk";
import { callFailed, onFrontFailure } from "../components/Boundary";
import { explain, request, within } from "../lib/client";
import { onEvent, onResync } from "../lib/events";
import { registry, type Conflict, type Kind, type Outputs } from "../lib/registry";
import { dismiss, openPanel, toast } from "../lib/ui";
import { checkPlugin } from "./check";
import { adopt, forget } from "./family";
import { startCommands } from "./commands";
import { absolve, guarded, startGuard, stoodStill } from "./guard";

interface Listed {
  name: string;
  revision: number;
  hash: string;
  url: string;
  style: string | null;
  options: unknown;
  /** The hub holds something that a page said of this version. */
  reported: boolean;
}
interface Diagnostic {
  code: "FRONT_LOAD_FAILED" | "OUTPUT_CONFLICT";
  message: string;
}
/** One plugin in this page. */
interface Loaded {
  listed: Listed; // the version that runs
  module: { default?: unknown; __afloat?: Record<string, unknown> };
  plugin: FrontPlugin;
  outputs: Partial<Outputs>;
  style: HTMLLinkElement | null;
  failed: Diagnostic[]; // while it was rendered
  refused: Diagnostic[]; // when it was called: a command, a search
  needs: string | null; // why the page has to be loaded again
  renewed: boolean; // its components were mounted anew because their hooks had changed
  told: string; // to the hub
}

const IMPORT_MS = 30_000;
const TRIES = 4;
const OWN = "afloat"; // the owner of the page's views
const loaded = new Map<string, Loaded>();
const orphans = new Map<string, Loaded>(); // removed, but for providers that are still round the page
const newest = new Map<string, string>(); // by name, what was asked for last
const mark = (l: Listed): string => l.hash + JSON.stringify(l.options);
const openedOnce = new Set<string>(); // keys of panels with `open` that were opened
const asks = new Map<string, number>(); // toasts that offer a reload of the page, or to load a plugin all the same
const inFlight = new Set<Promise<void>>(); // versions that are being loaded
let streaming = false; // the stream is open: a list is complete
let opening: Promise<void> | undefined; // the first such list is being loaded
let settled = false; // the plugins that were there when the page opened are in place

// ---- telling the hub ----------------------------------------------------------------------------

const conflictText = (c: Conflict): Diagnostic => ({
  code: "OUTPUT_CONFLICT",
  message: `${c.kind} '${c.id}' of '${c.other}' is '${c.other}.${c.id}': '${c.first}' has the name`,
});

let telling: Promise<unknown> = Promise.resolve();

/** One report after the other: each replaces the one before, and requests side by side may arrive in another order. */
function tell(l: Listed, diagnostics: Diagnostic[], needs?: string): void {
  const body = { revision: l.revision, diagnostics: diagnostics.slice(0, 16), ...(needs ? { needs } : {}) };
  telling = telling.then(() => request("POST", `/front/${encodeURIComponent(l.name)}/report`, body)).catch(() => undefined); // the next version tells again
}

/** Tell how a plugin stands, if that is new. */
function tellAll(name: string): void {
  const p = loaded.get(name);
  if (!p) return;
  const mine = registry.conflicts().filter((c) => c.other === name).map(conflictText);
  const now = [...p.failed, ...p.refused, ...mine];
  const fine = now.length === 0 && !p.needs;
  const text = fine ? "" : JSON.stringify([p.listed.revision, now, p.needs]);
  if (text === p.told && !(fine && p.listed.reported)) return;
  p.told = text;
  p.listed.reported = !fine;
  tell(p.listed, now, p.needs ?? undefined);
}

// ---- loading ------------------------------------------------------------------------------------

/** The style sheet, in place but for the swap. One that cannot be had stops nothing. */
async function loadStyle(l: Listed): Promise<HTMLLinkElement | null> {
  if (!l.style) return null;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = l.style;
  link.dataset.plugin = l.name;
  const there = new Promise<void>((done) => { link.onload = link.onerror = () => done(); });
  document.head.append(link);
  await within(there, 3000, "slow").catch(() => undefined);
  return link;
}

/** The components of a version's outputs, replaced by those that keep their state. */
function withStandIns(name: string, module: Loaded["module"], plugin: FrontPlugin, fresh: boolean, except: ReadonlySet<unknown>): { outputs: Partial<Outputs>; commit(): void } {
  const adoption = adopt(name, module.__afloat ?? {}, fresh, except);
  const outputs: Partial<Record<Kind, unknown[]>> = {};
  for (const [kind, list] of Object.entries(plugin) as [Kind | "on", unknown][]) {
    if (kind === "on") continue;
    outputs[kind] = (list as { id?: string; tool?: string; component?: never }[]).map((output) =>
      "component" in output && kind !== "bindings" && !except.has(output.component) // a binding is mounted anew
        ? { ...output, component: adoption.of(output.component!, `${kind}.${output.id ?? output.tool}`) } : output);
  }
  return { outputs: outputs as Partial<Outputs>, commit: adoption.commit };
}

/** Why the providers of a plugin cannot be swapped; null: they are the same. */
function providerChange(before: FrontPlugin | undefined, after: FrontPlugin | undefined): string | null {
  const old = before?.providers ?? [], now = after?.providers ?? [];
  for (const p of now) {
    const was = old.find((o) => o.id === p.id);
    if (!was) return `provider '${p.id}' was added`;
    if (String(was.component) !== String(p.component)) return `provider '${p.id}' changed`;
  }
  const gone = old.find((o) => !now.some((p) => p.id === o.id));
  return gone ? `provider '${gone.id}' was removed` : null;
}

function askForReload(name: string, why: string | null): void {
  const old = asks.get(name);
  if (old !== undefined) dismiss(old);
  asks.delete(name);
  if (why) {
    asks.set(name, toast(`${name}: ${why}. Load the page again to take it over.`, "warning", {
      sticky: true, action: { label: "Reload page", run: () => location.reload() },
    }));
  }
}

function life(name: string, plugin: FrontPlugin, event: LifeEvent): void {
  const handler = plugin.on?.[event.type];
  if (!handler) return;
  Promise.resolve().then(() => handler(event)).catch((e: unknown) => {
    if (event.type === "plugin_start") callFailed(name, event.type, e);
    else toast(`Plugin ${name}: ${event.type}: ${explain(e)}`, "error"); // the version that it is of is gone
  });
}

/** The module. One that could not be fetched is asked for again, under another address: browsers remember failures. */
async function importModule(l: Listed): Promise<Loaded["module"]> {
  for (let n = 1; ; n++) {
    try {
      const url = n === 1 ? l.url : `${l.url}&try=${n}`;
      return await within(import(url) as Promise<Loaded["module"]>, IMPORT_MS, `not loaded after ${IMPORT_MS / 1000} s`);
    } catch (e) {
      const lost = e instanceof TypeError && /module/i.test(e.message);
      if (!lost || n === TRIES || newest.get(l.name) !== mark(l)) throw e;
      await new Promise((done) => setTimeout(done, 250 * 2 ** n));
    }
  }
}

/** Put a version in the place of what the plugin contributed. */
function swap(l: Listed, module: Loaded["module"], plugin: FrontPlugin, style: HTMLLinkElement | null): void {
  const running = loaded.get(l.name), old = running ?? orphans.get(l.name);
  const needs = settled ? providerChange(old?.plugin, plugin) : null;
  const except = new Set<unknown>(needs ? (plugin.providers ?? []).map((p) => p.component) : []);
  const made = withStandIns(l.name, module, plugin, (old?.failed.length ?? 0) > 0, except);
  if (needs) made.outputs.providers = old?.outputs.providers ?? [];
  if (running) life(l.name, running.plugin, { type: "plugin_shutdown", reason: "reload" });
  orphans.delete(l.name);
  loaded.set(l.name, {
    listed: l, module, plugin: needs ? { ...plugin, providers: old?.plugin.providers ?? [] } : plugin,
    outputs: made.outputs, style, failed: [], refused: [], needs, renewed: false, told: "",
  });
  made.commit();
  registry.replace(l.name, made.outputs);
  running?.style?.remove();
  askForReload(l.name, needs);
  life(l.name, plugin, { type: "plugin_start", reason: running ? "reload" : "start" });
  tellAll(l.name);
}

/** Open the panels that ask for it, each once in the page's life. */
function openOwn(l: Listed, plugin: FrontPlugin): void {
  for (const panel of plugin.panels ?? []) {
    const key = `${l.name}.${panel.id}`;
    if (panel.open && !openedOnce.has(key)) openPanel(key, {}, undefined, !settled);
    if (panel.open) openedOnce.add(key);
  }
}

const landing: (() => void)[] = [];

/** Put a version in place: while the page opens together with the others that came, since each would render the page. */
function land(l: Listed, module: Loaded["module"], plugin: FrontPlugin, style: HTMLLinkElement | null): Promise<void> {
  return new Promise((done, fail) => {
    const put = () => {
      try {
        if (newest.get(l.name) !== mark(l)) throw null; // a newer version came meanwhile, or it was removed
        swap(l, module, plugin, style);
        done();
      } catch (e) {
        fail(e);
      }
    };
    if (settled) put();
    else if (landing.push(put) === 1) setTimeout(() => registry.batch(() => { for (const one of landing.splice(0)) one(); }), 12);
  });
}

const guardMark = (l: Listed): string => `${l.name} ${mark(l)}`;

function offerAnyway(l: Listed): void {
  asks.set(l.name, toast(`${l.name} is left out: a page stood still while it loaded this version.`, "warning", {
    sticky: true, action: { label: "Load it anyway", run: () => { absolve(guardMark(l)); guarded([{ mark: guardMark(l), load: () => load(l) }]); } },
  }));
}

async function load(l: Listed): Promise<void> {
  let style: HTMLLinkElement | null = null;
  try {
    if (stoodStill(guardMark(l))) {
      offerAnyway(l);
      throw new Error("left out: a page stood still while it loaded this version, as an endless loop would make it");
    }
    if (l.name === OWN) throw new Error(`'${OWN}' is the page's own name: give the plugin another`);
    style = await loadStyle(l);
    const module = await importModule(l);
    const plugin = checkPlugin(module.default, l.options);
    await land(l, module, plugin, style);
    openOwn(l, plugin);
  } catch (e) {
    style?.remove();
    if (newest.get(l.name) !== mark(l)) return;
    l.reported = true; // taken back when it is loaded after all
    tell(l, [{ code: "FRONT_LOAD_FAILED", message: explain(e) }]);
  }
}

function unload(name: string): void {
  const p = loaded.get(name);
  newest.delete(name);
  if (!p) return;
  life(name, p.plugin, { type: "plugin_shutdown", reason: "remove" });
  loaded.delete(name);
  const providers = p.outputs.providers ?? [];
  if (providers.length > 0) { // taken away now they would take the page's state with them
    orphans.set(name, p);
    registry.replace(name, { providers });
    askForReload(name, `provider '${providers[0]!.id}' was removed`);
  } else {
    registry.remove(name);
    forget(name);
  }
  p.style?.remove();
}

// ---- following the hub --------------------------------------------------------------------------

let running = false, again = false;

/** Bring the page to what the list says. */
function follow(list: readonly Listed[]): void {
  for (const name of [...newest.keys()]) if (!list.some((l) => l.name === name)) unload(name);
  const due = list.filter((l) => newest.get(l.name) !== mark(l));
  for (const l of due) newest.set(l.name, mark(l));
  for (const l of list) {
    const p = loaded.get(l.name);
    if (p && mark(p.listed) === mark(l)) { // another revision of the same web side
      p.listed = l;
      tellAll(l.name);
    }
  }
  const owners = registry.owners();
  const more = list.filter((l) => !owners.includes(l.name));
  if (more.length > 0) registry.batch(() => { for (const l of more) registry.replace(l.name, {}); }); // their places in the order
  for (const one of guarded(due.map((l) => ({ mark: guardMark(l), load: () => load(l) })))) {
    const tracked = one.finally(() => inFlight.delete(tracked));
    inFlight.add(tracked);
  }
}

async function sync(): Promise<void> {
  if (running) {
    again = true;
    return;
  }
  running = true;
  do {
    again = false;
    try {
      follow(((await request("GET", "/front/plugins")) as { plugins: Listed[] }).plugins);
    } catch {
      break; // the hub is away: the stream asks again when it is back
    }
    if (streaming) opening ??= within(Promise.all(inFlight), 5000, "slow").catch(() => undefined).then(() => { settled = true; }); // later ones bring no provider
  } while (again);
  running = false;
}

/** A contribution failed while it was rendered, or when it was called. */
function contributionFailed(owner: string, what: string, error: Error, rendering: boolean): void {
  const p = loaded.get(owner);
  if (!p) return;
  if (rendering && /hooks than/.test(error.message) && !p.renewed) { // its hooks are others after all: mount it anew, once
    const made = withStandIns(owner, p.module, p.plugin, true, new Set((p.plugin.providers ?? []).map((x) => x.component)));
    made.outputs.providers = p.outputs.providers;
    p.renewed = true;
    p.outputs = made.outputs;
    made.commit();
    registry.replace(owner, made.outputs);
    return;
  }
  const list = rendering ? p.failed : p.refused;
  const message = `${what}: ${error.message}`;
  if (!list.some((d) => d.message === message)) list.push({ code: "FRONT_LOAD_FAILED", message });
  tellAll(owner);
}

/** Load front plugins and keep them fresh. Called once, when the page starts. */
export function startPlugins(): void {
  onFrontFailure(contributionFailed);
  onResync(() => { streaming = true; void sync(); });
  for (const type of ["plugin.loaded", "plugin.changed", "plugin.unloaded"]) onEvent(type, () => void sync());
  onEvent("hub.started", () => void sync());
  registry.subscribe(() => { for (const name of loaded.keys()) tellAll(name); }); // conflicts come and go
  startCommands();
  startGuard();
  const { plugins } = JSON.parse(document.getElementById("fronts")?.textContent || '{"plugins":[]}') as { plugins: Listed[] };
  if (plugins.length > 0) void import("../components/Dock"); // nearly all have a panel
  follow(plugins); // as the page came; once more when the stream is open, so that nothing is missed between
}
