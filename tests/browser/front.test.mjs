// Front plugins in a real page: swapped under the reader's hands, broken, slow, in conflict, removed.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { assert, DEADLINE, equal, open } from "./rig.mjs";

/** Save files of a plugin as an editor does. */
function save(hub, name, files) {
  for (const [file, text] of Object.entries(files)) {
    const at = path.join(hub.home, "plugins", name, file);
    fs.mkdirSync(path.dirname(at), { recursive: true });
    fs.writeFileSync(at + ".tmp~", text);
    fs.renameSync(at + ".tmp~", at);
  }
}
function remove(hub, ...names) {
  for (const name of names) fs.rmSync(path.join(hub.home, "plugins", name), { recursive: true, force: true });
}
const panel = (page, key) => page.locator(`[data-panel-id="${key}"]`);
/** Ask until it is so. */
async function until(what, text) {
  for (const end = Date.now() + DEADLINE; ;) {
    if (await what()) return;
    assert(Date.now() < end, `not in time: ${text}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}
const row = (hub, name) => hub.api("GET", `/plugin/${name}`);

/** A panel with state in it and in a component of its own, a long list, and a version in its heading. */
const notes = (version, more = "") => `
import { definePlugin, useHub } from "afloat";
import { useState } from "react";
${more}
function Draft() {
  const [text, setText] = useState("");
  return <textarea aria-label="Draft" value={text} onChange={(e) => setText(e.target.value)} />;
}
function Notes() {
  const [n, setN] = useState(0);
  return (
    <div data-scroller style={{ height: 200, overflow: "auto" }}>
      <h2>Notes ${version}</h2>
      <button onClick={() => setN(n + 1)}>count {n}</button>
      <Draft />
      {Array.from({ length: 100 }, (_, i) => <p key={i}>line {i}</p>)}
    </div>
  );
}
export default definePlugin({ panels: [{ id: "main", title: "Notes", placement: "right", component: Notes, open: true }] });
`;

export const tests = {
  async "a saved panel changes in place: text, focus, scroll and state stay"({ browser, hub }) {
    save(hub, "notes", { "front/index.tsx": notes("one") });
    const { page, close } = await open(browser, hub);
    const p = panel(page, "notes.main");
    await p.getByRole("heading", { name: "Notes one" }).waitFor();
    await p.getByRole("button", { name: "count 0" }).click();
    await p.getByLabel("Draft").fill("half a thought");
    await page.evaluate(() => { document.querySelector("[data-scroller]").scrollTop = 300; });
    await p.getByLabel("Draft").evaluate((e) => { e.focus({ preventScroll: true }); e.setSelectionRange(4, 6); });
    await page.evaluate(() => { window.__kept = document.querySelector("textarea[aria-label=Draft]"); });
    save(hub, "notes", { "front/index.tsx": notes("two") });
    await p.getByRole("heading", { name: "Notes two" }).waitFor();
    const now = await page.evaluate(() => ({
      same: window.__kept === document.querySelector("textarea[aria-label=Draft]"), focus: document.activeElement === window.__kept,
      text: window.__kept.value, from: window.__kept.selectionStart, to: window.__kept.selectionEnd,
      scroll: document.querySelector("[data-scroller]").scrollTop,
    }));
    equal(now, { same: true, focus: true, text: "half a thought", from: 4, to: 6, scroll: 300 });
    await p.getByRole("button", { name: "count 1" }).waitFor();
    await close();
  },

  async "a component with other hooks is mounted anew, the others keep their state"({ browser, hub }) {
    save(hub, "notes", { "front/index.tsx": notes("one") });
    const { page, close } = await open(browser, hub);
    const p = panel(page, "notes.main");
    await p.getByLabel("Draft").fill("gone with its hooks");
    await p.getByRole("button", { name: "count 0" }).click();
    const other = notes("two").replace('const [text, setText] = useState("");', 'const [k] = useState(1); const [text, setText] = useState("new " + k);');
    save(hub, "notes", { "front/index.tsx": other });
    await p.getByRole("heading", { name: "Notes two" }).waitFor();
    equal(await p.getByLabel("Draft").inputValue(), "new 1");
    await p.getByRole("button", { name: "count 1" }).waitFor();
    await close();
  },

  async "classes, memos and forwarded refs keep their state over a swap too"({ browser, hub }) {
    const kinds = (v) => `
import { definePlugin } from "afloat";
import { Component, createContext, forwardRef, memo, PureComponent, useRef, useState } from "react";
const Unit = createContext("none");
class Counter extends Component {
  static contextType = Unit;
  state = { n: 0 };
  componentWillUnmount() { window.__unmounted = (window.__unmounted ?? 0) + 1; }
  render() { return <button onClick={() => this.setState({ n: this.state.n + 1 })}>class ${v} {this.state.n} {this.context}</button>; }
}
class Plain extends PureComponent { render() { return <p>pure ${v}</p>; } }
const Memo = memo(function Inner({ step }) { const [n, set] = useState(0); return <button onClick={() => set(n + step)}>memo ${v} {n}</button>; }, () => true);
const Field = forwardRef(function Field(props, ref) { const [t, set] = useState(""); return <label>field ${v}<input ref={ref} aria-label={props.label} value={t} onChange={(e) => set(e.target.value)} /></label>; });
function All() {
  const field = useRef(null);
  return <Unit value="units"><Counter /><Plain /><Memo step={2} /><Field ref={field} label="Forwarded" /><button onClick={() => field.current.focus()}>go there</button></Unit>;
}
export default definePlugin({ panels: [{ id: "main", title: "Kinds", component: memo(All), open: true }] });
`;
    save(hub, "kinds", { "front/index.tsx": kinds("one") });
    const { page, close } = await open(browser, hub);
    const p = panel(page, "kinds.main");
    await p.getByRole("button", { name: "class one 0 units" }).click();
    await p.getByRole("button", { name: "memo one 0" }).click();
    await p.getByLabel("Forwarded").fill("typed");
    for (const v of ["two", "three"]) {
      save(hub, "kinds", { "front/index.tsx": kinds(v) });
      await p.getByRole("button", { name: `class ${v} 1 units` }).waitFor();
      await p.getByText(`pure ${v}`).waitFor();
      await p.getByRole("button", { name: `memo ${v} 2` }).waitFor();
      await p.getByText(`field ${v}`).waitFor();
      equal(await p.getByLabel("Forwarded").inputValue(), "typed");
    }
    equal(await page.evaluate(() => window.__unmounted ?? 0), 0, "instances were mounted anew:");
    await p.getByRole("button", { name: "go there" }).click();
    await until(() => p.getByLabel("Forwarded").evaluate((e) => document.activeElement === e), "the ref leads to the element");
    await p.getByRole("button", { name: "class three 1 units" }).click();
    await p.getByRole("button", { name: "class three 2 units" }).waitFor();
    await close();
  },

  async "lazy components keep their state over a swap, and are mounted anew when their hooks change"({ browser, hub }) {
    const index = (v) => `
import { definePlugin } from "afloat";
import { lazy, Suspense, useState } from "react";
const Chart = lazy(() => import("./chart"));
const Legend = lazy(() => import("./legend"));
function All() {
  const [n, set] = useState(0);
  return <Suspense fallback={<p>waiting</p>}><button onClick={() => set(n + 1)}>all ${v} {n}</button><Chart label="Depth" /><Legend /></Suspense>;
}
export default definePlugin({ panels: [{ id: "main", title: "Lazy", component: All, open: true }, { id: "own", title: "Own", component: lazy(() => import("./legend")) }] });
`;
    const chart = (v, more = "") => `
import { useState } from "react";
export default function Chart({ label }) {
  const [t, set] = useState("");
  ${more}
  return <label>chart ${v}<input aria-label={label} value={t} onChange={(e) => set(e.target.value)} /></label>;
}`;
    const legend = (v) => `
import { memo, useState } from "react";
const Inner = memo(() => { const [n, set] = useState(0); return <button onClick={() => set(n + 1)}>legend ${v} {n}</button>; });
export default Inner;`;
    const files = (v, more) => ({ "front/legend.tsx": legend(v), "front/chart.tsx": chart(v, more), "front/index.tsx": index(v) });
    save(hub, "lazy", files("one"));
    const { page, watched, close } = await open(browser, hub);
    watched.allow.push(/off the chart/, /404 .*\/front\/lazy\//); // three files make up to three versions: one may be gone when it is asked for
    const p = panel(page, "lazy.main");
    await p.getByRole("button", { name: "all one 0" }).click();
    await p.getByRole("button", { name: "legend one 0" }).click();
    await p.getByLabel("Depth").fill("12 m");
    for (const v of ["two", "three"]) {
      save(hub, "lazy", files(v));
      await p.getByRole("button", { name: `all ${v} 1` }).waitFor();
      await p.getByRole("button", { name: `legend ${v} 1` }).waitFor();
      await p.getByText(`chart ${v}`).waitFor();
      equal(await p.getByLabel("Depth").inputValue(), "12 m");
      equal(await p.getByText("waiting").count(), 0, "nothing is waited for again:");
    }
    save(hub, "lazy", files("four", "useState(1);"));
    await p.getByText("chart four").waitFor();
    equal(await p.getByLabel("Depth").inputValue(), "", "another hook: mounted anew;");
    await p.getByRole("button", { name: "legend four 1" }).waitFor();
    save(hub, "lazy", { "front/chart.tsx": 'throw new Error("off the chart");\nexport default () => null;' });
    await until(async () => /off the chart/.test((await row(hub, "lazy")).front_error ?? ""), "the hub is told");
    save(hub, "lazy", files("five"));
    await p.getByText("chart five").waitFor();
    await close();
  },

  async "many plugins cost one list and a few renders, not one each"({ browser, hub }) {
    const names = Array.from({ length: 30 }, (_, i) => `many${i}`);
    for (const name of names) {
      save(hub, name, { "front/index.tsx": `import { definePlugin } from "afloat";
export default definePlugin({ panels: [{ id: "${name}", title: "${name} </script>", component: () => <p data-many>{"${name}"}</p>, open: true }] });` });
    }
    await until(async () => (await hub.api("GET", "/front/plugins")).plugins.length === names.length, "all are compiled");
    const { page, close } = await open(browser, hub);
    await page.addInitScript(() => {
      window.__commits = 0;
      window.__REACT_DEVTOOLS_GLOBAL_HOOK__ = { supportsFiber: true, checkDCE() {}, inject: () => 1, onCommitFiberRoot() { window.__commits++; }, onCommitFiberUnmount() {}, onPostCommitFiberRoot() {} };
    });
    const all = () => page.waitForFunction((n) => document.querySelectorAll("[data-panel-id] [data-many]").length === n, names.length);
    await all();
    await page.waitForFunction((n) => Object.keys(JSON.parse(localStorage.getItem("afloat.dock"))?.panels ?? {}).length === n, names.length);
    await page.reload(); // panels of the kept layout are drawn too, those behind others included
    await all();
    const [commits, lists] = await page.evaluate(() => [window.__commits, performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/front/plugins")).length]);
    assert(lists <= 1, `the list was asked for ${lists} times`); // when the stream is open: the page came with the first one
    assert(commits > 0 && commits <= 20, `${commits} renders`);
    await close();
  },

  async "a hundred swaps leave no error, element or listener behind"({ browser, hub }) {
    save(hub, "notes", { "front/index.tsx": notes("v0", 'import "./a.css";'), "front/a.css": "h2 { color: teal }" });
    const { page, context, close } = await open(browser, hub);
    const p = panel(page, "notes.main");
    const cdp = await context.newCDPSession(page);
    const count = async () => {
      await cdp.send("HeapProfiler.collectGarbage");
      const { nodes, jsEventListeners } = await cdp.send("Memory.getDOMCounters");
      return { nodes, jsEventListeners, links: await page.locator("link[data-plugin]").count() };
    };
    await p.getByLabel("Draft").fill("stays");
    const swap = async (i) => {
      save(hub, "notes", { "front/index.tsx": notes(`v${i}`, 'import "./a.css";') });
      await p.getByRole("heading", { name: `Notes v${i}`, exact: true }).waitFor();
    };
    for (let i = 1; i <= 10; i++) await swap(i);
    const before = await count();
    for (let i = 11; i <= 110; i++) await swap(i);
    const after = await count();
    equal(await p.getByLabel("Draft").inputValue(), "stays");
    equal(after.links, 1, "style sheets");
    assert(after.nodes <= before.nodes + 150, `nodes: ${before.nodes} -> ${after.nodes}`);
    assert(after.jsEventListeners <= before.jsEventListeners + 20, `listeners: ${before.jsEventListeners} -> ${after.jsEventListeners}`);
    await close();
  },

  async "what does not compile, load or hold leaves the old panel and is told"({ browser, hub }) {
    save(hub, "notes", { "front/index.tsx": notes("good") });
    const { page, watched, close } = await open(browser, hub);
    watched.allow.push(/oh no/, /boom/);
    const p = panel(page, "notes.main");
    await p.getByLabel("Draft").fill("precious");
    const alert = (text) => page.getByRole("alert").filter({ hasText: text }).first();

    save(hub, "notes", { "front/index.tsx": notes("bad").replace("return (", "return ((") });
    await alert(/Plugin notes: .*front\/index.tsx:\d+/).waitFor();
    equal(await p.getByLabel("Draft").inputValue(), "precious");

    save(hub, "notes", { "front/index.tsx": notes("throws", 'throw new Error("oh no");') });
    await alert("oh no").waitFor();
    await until(async () => (await row(hub, "notes")).front_error === "oh no", "front_error of the row");
    equal(await p.getByLabel("Draft").inputValue(), "precious");

    save(hub, "notes", { "front/index.tsx": 'export default { panels: [{ id: "main", title: "x" }], colour: 1 };' });
    await until(async () => /'colour' is not an output/.test((await row(hub, "notes")).front_error ?? ""), "an unknown output is named");
    equal(await p.getByLabel("Draft").inputValue(), "precious");

    save(hub, "notes", { "front/index.tsx": notes("renders").replace("const [n, setN]", 'if (1) throw new Error("boom"); const [n, setN]') });
    await p.getByText("boom").waitFor();
    await until(async () => /boom/.test((await row(hub, "notes")).front_error ?? ""), "a failure of rendering is told");
    equal(await page.getByRole("textbox", { name: "Message" }).isVisible(), true, "the page goes on");

    save(hub, "notes", { "front/index.tsx": notes("mended") });
    await p.getByRole("heading", { name: "Notes mended" }).waitFor();
    await until(async () => (await row(hub, "notes")).front_error === null, "mended");
    await close();
  },

  async "a removed plugin's panel says so, and comes back with the plugin"({ browser, hub }) {
    save(hub, "notes", { "front/index.tsx": notes("one") });
    const { page, close } = await open(browser, hub);
    await panel(page, "notes.main").getByRole("heading", { name: "Notes one" }).waitFor();
    remove(hub, "notes");
    await panel(page, "notes.main").getByText("Plugin removed").waitFor();
    save(hub, "notes", { "front/index.tsx": notes("back") });
    await panel(page, "notes.main").getByRole("heading", { name: "Notes back" }).waitFor();
    await close();
  },

  async "two panels of one id: the first keeps it, both are named"({ browser, hub }) {
    const simple = (text) => `import { definePlugin } from "afloat";
export default definePlugin({ panels: [{ id: "same", title: "${text}", component: () => <p>I am ${text}</p>, open: true }] });`;
    save(hub, "alpha", { "front/index.tsx": simple("alpha") });
    save(hub, "beta", { "front/index.tsx": simple("beta") });
    const { page, close } = await open(browser, hub);
    await panel(page, "alpha.same").getByText("I am alpha").waitFor({ state: "attached" });
    await panel(page, "beta.same").getByText("I am beta").waitFor({ state: "attached" });
    let told;
    await until(async () => (told = (await row(hub, "beta")).diagnostics.find((d) => d.code === "OUTPUT_CONFLICT")), "OUTPUT_CONFLICT");
    assert(/alpha/.test(told.message) && /beta\.same/.test(told.message), told.message);
    equal((await row(hub, "alpha")).diagnostics, []);
    await close();
  },

  async "a slow module holds nobody up, and a newer version overtakes it"({ browser, hub }) {
    save(hub, "slow", { "front/index.tsx": `${notes("fast").replace("Notes fast", "Slow old")}\nawait new Promise((done) => setTimeout(done, 1500));` });
    save(hub, "quick", { "front/index.tsx": notes("quick") });
    const { page, close } = await open(browser, hub);
    await panel(page, "quick.main").getByRole("heading", { name: "Notes quick" }).waitFor();
    save(hub, "slow", { "front/index.tsx": notes("fast").replace("Notes fast", "Slow new") });
    await panel(page, "slow.main").getByRole("heading", { name: "Slow new" }).waitFor({ state: "attached" });
    await page.waitForTimeout(1800);
    equal(await panel(page, "slow.main").getByRole("heading", { name: "Slow old" }).count(), 0, "a stale version is not taken");
    await close();
  },

  // The table of the plugin system's design: how each output is swapped.
  async "every output swaps, and only a changed provider asks for a reload"({ browser, hub }) {
    const all = (v, provider = "wrapped") => `
import { definePlugin } from "afloat";
import { createContext, useContext, useEffect, useState } from "react";
const Words = createContext("none");
function Wrap({ children }) { return <Words value="${provider}"><div data-wrap>{children}</div></Words>; }
function Main({ params }) { const words = useContext(Words); const [t, set] = useState(""); return <div><p>panel ${v} {words} {String(params.item ?? "")}</p><input aria-label="Main text" value={t} onChange={(e) => set(e.target.value)} /></div>; }
function Tab() { return <p>tab ${v}</p>; }
function Bind() { useEffect(() => { document.body.dataset.bound = "${v}"; return () => { delete document.body.dataset.bound; }; }, []); return null; }
function Card({ call }) { return <p>card ${v} {call.tool}</p>; }
export default definePlugin({
  panels: [{ id: "main", title: "Main", component: Main, open: true }],
  commands: [{ id: "say", title: "Say the version", run: (hub) => hub.toast("command ${v}") }],
  catalogs: [{ id: "things", title: "Things", search: (q) => [{ id: "1", title: "thing ${v} " + q }], onSelect: (item, hub) => hub.toast("chosen " + item.title) }],
  leftTabs: [{ id: "tab", title: "Swap tab", component: Tab }],
  surfaceResolvers: [{ id: "r", kind: "thing", resolve: (r) => ({ panel: "main", params: { item: "${v} " + r.target }, score: 5 }) }],
  bindings: [{ id: "b", component: Bind }],
  providers: [{ id: "words", component: Wrap }],
  toolRenderers: [{ tool: "shell", component: Card }],
  on: { plugin_start: (e) => { (window.__life ??= []).push("start ${v} " + e.reason); }, plugin_shutdown: (e) => { (window.__life ??= []).push("shutdown ${v} " + e.reason); } },
});`;
    save(hub, "all", { "front/index.tsx": all("one") });
    save(hub, "other", { "front/index.tsx": `import { definePlugin } from "afloat";
export default definePlugin({ panels: [{ id: "low", title: "Low", component: () => <p>low</p> }], surfaceResolvers: [{ id: "low", kind: "thing", resolve: () => ({ panel: "low", score: 1 }) }] });` });
    const s = await hub.session(hub.scenario([{ text: "look", tool_calls: [{ name: "shell", input: { cmd: "echo hi" } }] }, { text: "done" }]));
    await hub.turn(s.id, "go");
    const { page, close, palette } = await open(browser, hub);
    await page.goto(`${hub.origin}/#/session/${s.id}`);
    await page.getByRole("textbox", { name: "Message" }).waitFor();
    const p = panel(page, "all.main");
    const command = async (say) => {
      await page.keyboard.press("Control+k");
      await palette.waitFor();
      await palette.getByRole("combobox").fill(say);
    };
    const look = async (v) => {
      await p.getByText(`panel ${v} wrapped`).waitFor();
      await command("Say the version");
      await palette.getByRole("option", { name: /^Say the version/ }).click();
      await page.getByRole("status").filter({ hasText: `command ${v}` }).waitFor();
      await command("zq");
      await palette.getByText(`thing ${v} zq`).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("tab", { name: "Swap tab" }).click();
      await page.getByText(`tab ${v}`).waitFor();
      await until(() => page.evaluate((w) => document.body.dataset.bound === w, v), "the binding");
      equal(await hub.api("POST", "/ui/command", { kind: "open_surface", params: { kind: "thing", target: "x" } }), { ok: true, result: { opened: "all.main" } });
      await p.getByText(`panel ${v} wrapped ${v} x`).waitFor();
      await page.getByRole("region", { name: "Conversation" }).getByText("shell").first().waitFor();
      if ((await page.getByText(`card ${v} shell`).count()) === 0) await page.getByRole("region", { name: "Conversation" }).getByText("echo hi").first().click();
      await page.getByText(`card ${v} shell`).waitFor();
    };
    await look("one");
    await page.locator("[data-wrap]").evaluate((e) => { e.dataset.marked = "yes"; });
    await p.getByLabel("Main text").fill("typed");
    const alerts = () => page.getByRole("button", { name: "Reload page" }).count();

    save(hub, "all", { "front/index.tsx": all("two") });
    await p.getByText("panel two wrapped").waitFor();
    await look("two");
    equal(await p.getByLabel("Main text").inputValue(), "typed");
    equal(await page.locator("[data-wrap][data-marked]").count(), 1, "the provider and all below it stay");
    equal(await alerts(), 0, "no reload is asked for");
    equal(await page.evaluate(() => window.__life), ["start one start", "shutdown one reload", "start two reload"]);

    save(hub, "all", { "front/index.tsx": all("three", "rewrapped") });
    await p.getByText("panel three wrapped").waitFor();
    await page.getByRole("button", { name: "Reload page" }).waitFor();
    equal(await p.getByLabel("Main text").inputValue(), "typed");
    await until(async () => (await row(hub, "all")).outputs.some((o) => o.kind === "front" && o.needs === "page-reload"), "needs of the row");
    await page.getByRole("button", { name: "Reload page" }).click();
    await p.getByText("panel three rewrapped").waitFor();
    equal(await alerts(), 0);
    await until(async () => (await row(hub, "all")).outputs.every((o) => o.needs === undefined), "needs are over");
    await close();
  },

  async "a plugin's values that cannot be shown take nothing else with them"({ browser, hub }) {
    const plugin = (outputs) => `import { definePlugin } from "afloat";
import { forwardRef } from "react";
const Star = forwardRef((props, ref) => <i ref={ref}>star</i>);
const Tab = () => <p>the tab</p>;
export default definePlugin({ ${outputs} });`;
    const { page, watched, palette, message, close } = await open(browser, hub);
    watched.allow.push(/'(icon|shortcut|group|detail)' must be/, /React error #31/, /objects are not valid/);
    const told = (text) => row(hub, "odd").then((r) => JSON.stringify([r.front_error, r.diagnostics]).includes(text), () => false);
    const command = (more) => `commands: [{ id: "c", title: "Odd one", run() {}, ${more} }]`;
    const refused = { icon: 'leftTabs: [{ id: "t", title: "Odd tab", icon: Star, component: Tab }]', shortcut: command("shortcut: 7"), group: command("group: {}") };
    for (const [field, outputs] of Object.entries(refused)) {
      save(hub, "odd", { "front/index.tsx": plugin(outputs) });
      await until(() => told(`'${field}' must be`), `${field} is refused`);
      await message.press("x"); // a shortcut is looked up
      equal(await message.isVisible(), true, `the page goes on (${field}):`);
    }
    save(hub, "odd", { "front/index.tsx": plugin(`
  leftTabs: [{ id: "t", title: "Odd tab", icon: [Star], component: Tab }],
  commands: [{ id: "c", title: "Say an error", run: (hub) => { hub.toast(new Error("a hole in the hull")); hub.toast("still afloat", "success"); } }],
  catalogs: [{ id: "k", title: "Odd finds", search: () => [{ id: "1", title: "a find", detail: {} }], onSelect() {} }]`) });
    await page.getByRole("tab", { name: "Odd tab" }).click();
    await page.getByText("the tab").waitFor();
    await page.keyboard.press("Control+k");
    await palette.getByRole("combobox").fill("Say an error");
    await until(() => told("'detail' must be"), "the detail is refused");
    await palette.getByRole("option", { name: /^Say an error/ }).click();
    await page.getByRole("status").filter({ hasText: "still afloat" }).waitFor();
    await page.getByRole("status").filter({ hasText: "a hole in the hull" }).waitFor();
    equal(await message.isVisible(), true, "the page goes on");
    remove(hub, "odd");
    await close();
  },

  async "catalogs of one title are listed together; Shift is a part of a plugin's shortcut"({ browser, hub }) {
    const plugin = (name, shortcut) => `import { definePlugin } from "afloat";
export default definePlugin({
  catalogs: [{ id: "k", title: "Same", search: () => [{ id: "1", title: "found by ${name}" }], onSelect() {} }],
  commands: [{ id: "c", title: "Run ${name}", shortcut: "${shortcut}", run: (hub) => hub.toast("ran ${name}") }],
});`;
    save(hub, "first", { "front/index.tsx": plugin("first", "Ctrl+Y") });
    save(hub, "second", { "front/index.tsx": plugin("second", "Ctrl+Shift+Y") });
    const { page, palette, close } = await open(browser, hub);
    await page.keyboard.press("Control+k");
    await palette.getByRole("option", { name: /^Run second/ }).waitFor();
    await palette.getByRole("option", { name: /^Run first/ }).waitFor();
    await palette.getByRole("combobox").fill("zq");
    await palette.getByText("found by first").waitFor();
    await palette.getByText("found by second").waitFor();
    await page.keyboard.press("Escape");
    await palette.waitFor({ state: "detached" });
    const ran = (name) => page.getByRole("status").filter({ hasText: `ran ${name}` });
    await page.keyboard.press("Control+Shift+Y");
    await ran("second").waitFor();
    equal(await ran("first").count(), 0, "without Shift:");
    await page.keyboard.press("Control+y");
    await ran("first").waitFor();
    remove(hub, "first", "second");
    await close();
  },

  async "a panel of many is opened when the one that was asked for is in front"({ browser, hub }) {
    for (const name of ["ada", "bob"]) await hub.api("POST", "/bots", { name, description: name, instructions: "Be brief." });
    const { page, close } = await open(browser, hub);
    const run = (name) => hub.api("POST", "/ui/command", { kind: "open_panel", params: { panel: "bot", params: { key: name, bot: name } } });
    for (const name of ["ada", "bob", "ada", "bob"]) {
      equal((await run(name)).result, { opened: "afloat.bot" });
      const { panels, active_panel: active } = await hub.api("GET", "/ui/state");
      assert(active === "afloat.bot" && panels.some((p) => p.params.key === name), JSON.stringify(panels));
      await page.locator(".dv-active-group .dv-active-tab").getByText(name, { exact: true }).waitFor(); // the panel gives its title itself
    }
    await close();
  },

  async "an agent sees and drives the page"({ browser, hub }) {
    save(hub, "notes", { "front/index.tsx": notes("one").replace("open: true", "open: false") });
    hub.write("read.me", "hello\n");
    const s = await hub.session();
    const { page, close } = await open(browser, hub);
    const run = (kind, params) => hub.api("POST", "/ui/command", { kind, params });
    await until(() => run("open_panel", { panel: "notes.main" }).then((a) => a.result.opened === "notes.main", () => false), "open_panel");
    await panel(page, "notes.main").getByRole("heading", { name: "Notes one" }).waitFor();
    await until(async () => (await hub.api("GET", "/ui/state")).active_panel === "notes.main", "the state");
    equal((await run("navigate", { session: s.id })).result, { session: s.id });
    await until(async () => (await hub.api("GET", "/ui/state")).session === s.id, "the session");
    equal((await run("open_file", { path: "read.me" })).result.path, "read.me");
    await panel(page, "afloat.file").waitFor();
    const refused = await run("open_file", { path: "missing.txt" }).then(() => "", String);
    assert(/CONFLICT/.test(refused), refused);
    assert(/there is no panel 'nope'/.test(await run("open_panel", { panel: "nope" }).then(() => "", String)));
    await run("notify", { text: "look here", kind: "success" });
    await page.getByRole("status").filter({ hasText: "look here" }).waitFor();
    equal((await run("close_panel", { panel: "notes.main" })).result, { closed: "notes.main" });
    for (const id of ["settings", "help", "settings", "help"]) { // who looks right after the answer sees the effect
      await run("open_panel", { panel: id });
      equal((await hub.api("GET", "/ui/state")).active_panel, `afloat.${id}`);
    }
    const model = await hub.session(hub.scenario([ // the same through the tools of a model
      { tool_calls: [{ name: "ui_command", input: { kind: "open_panel", params: { panel: "notes.main" } } }] },
      { tool_calls: [{ name: "ui_command", input: { kind: "open_panel", params: { panel: "nope" } } }] },
      { tool_calls: [{ name: "ui_state", input: {} }] }, { text: "seen" },
    ]));
    await hub.turn(model.id, "look");
    const [opened, nope, seen] = (await hub.api("GET", `/session/${model.id}/events`)).events.filter((e) => e.type === "tool.completed");
    assert(opened.success && /notes\.main/.test(opened.output), JSON.stringify(opened));
    assert(!nope.success && /there is no panel 'nope'/.test(nope.error), JSON.stringify(nope));
    assert(JSON.parse(seen.output).panels.some((o) => o.panel === "notes.main"), seen.output);
    await panel(page, "notes.main").getByRole("heading", { name: "Notes one" }).waitFor();
    await page.goto("about:blank");
    await until(async () => JSON.stringify(await hub.api("GET", "/ui/state")) === "{}", "a page that is gone shows nothing");
    await close();
  },

  async "a mended renderer is drawn again, a resolver that never answers holds nobody up"({ browser, hub }) {
    const made = (body) => `import { definePlugin } from "afloat";
function Card() { ${body} }
export default definePlugin({
  toolRenderers: [{ tool: "list_files", component: Card }],
  surfaceResolvers: [{ id: "never", kind: "chart", resolve: () => new Promise(() => undefined) }, { id: "good", kind: "chart", resolve: () => ({ panel: "slow.p", params: {}, score: 1 }) }],
  panels: [{ id: "p", title: "P", component: () => <p>the chart</p> }],
});`;
    save(hub, "slow", { "front/index.tsx": made('throw new Error("the card sank");') });
    const s = await hub.session(hub.scenario([{ tool_calls: [{ name: "list_files", input: {} }] }, { text: "listed" }]));
    await hub.turn(s.id, "list");
    const { page, talk, watched, close } = await open(browser, hub);
    watched.allow.push(/sank/);
    await page.goto(`${hub.origin}/#/session/${s.id}`);
    await talk.getByRole("button", { name: /list_files/ }).click();
    await talk.getByText("the card sank").waitFor();
    save(hub, "slow", { "front/index.tsx": made("return <p>the card floats</p>;") });
    await talk.getByText("the card floats").waitFor();
    const { opened } = await hub.api("POST", "/ui/command", { kind: "open_surface", params: { kind: "chart" } }).then((a) => a.result ?? a);
    equal(opened, "slow.p");
    await panel(page, "slow.p").getByText("the chart").waitFor();
    await close();
  },

  async "the shipped plugins answer questions and show data"({ browser, hub }) {
    const config = path.join(hub.home, "config.toml");
    execFileSync("python3", ["-c", "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('create table people (name text)'); db.execute(\"insert into people values ('<b>Lin</b>')\"); db.commit()", path.join(hub.project, "shop.db")]);
    hub.write("data/orders.csv", "id,customer,total\n1,\"Ada, Countess\",10.5\n2,Grace,7\n");
    fs.writeFileSync(config, `[[plugins]]\nname = "ask-user"\n[[plugins]]\nname = "data-catalog"\n[plugins.options]\ncsv_dir = "${hub.project}/data"\nsqlite = "${hub.project}/shop.db"\n`);
    await until(async () => (await hub.api("GET", "/front/plugins")).plugins.length === 2, "both are loaded");
    const { page, close } = await open(browser, hub);

    const asking = hub.api("POST", "/tool/ask_user", { input: { question: "Tea or coffee?", choices: ["tea", "coffee"] } });
    const questions = panel(page, "ask-user.questions");
    await questions.getByText("Tea or coffee?").waitFor();
    await questions.getByRole("button", { name: "tea" }).click();
    equal((await asking).output, "tea");
    await questions.getByText("No questions").waitFor();

    await page.getByRole("tab", { name: "Data" }).click();
    await page.getByRole("button", { name: /^orders/ }).click();
    const table = panel(page, "data-catalog.dataset");
    await table.getByRole("cell", { name: "Ada, Countess" }).waitFor();
    await table.getByLabel("Filter rows").fill("grace");
    equal(await table.getByRole("row").count(), 2);
    equal((await hub.api("POST", "/ui/command", { kind: "open_surface", params: { kind: "dataset", target: "orders" } })).result, { opened: "data-catalog.dataset" });
    await page.getByRole("button", { name: /^people.*table of shop\.db/ }).click(); // of a real SQLite file
    await table.getByRole("cell", { name: "<b>Lin</b>" }).waitFor();
    await close();
  },

  async "hooks that hide from the page are found out, and the component mounted anew"({ browser, hub }) {
    const hidden = (v, more = "") => notes(v, "const state = useState;").replaceAll("= useState(", "= state(").replace("const [n, setN]", `${more} const [n, setN]`);
    save(hub, "notes", { "front/index.tsx": hidden("one") });
    const { page, watched, close } = await open(browser, hub);
    watched.allow.push(/React error #310/);
    const p = panel(page, "notes.main");
    await p.getByRole("button", { name: "count 0" }).click();
    save(hub, "notes", { "front/index.tsx": hidden("two", "const [a] = state(5); const [b] = state(6);") });
    await p.getByRole("heading", { name: "Notes two" }).waitFor();
    await p.getByRole("button", { name: "count 0" }).waitFor();
    equal((await row(hub, "notes")).front_error, null);
    await close();
  },

  async "a plugin with a provider goes and comes back without taking the page's state"({ browser, hub }) {
    const wrap = (v) => `import { definePlugin } from "afloat";
function Wrap({ children }) { return <div data-wrap>{children}</div>; }
export default definePlugin({ providers: [{ id: "w", component: Wrap }], panels: [{ id: "p", title: "P", component: () => <p>wrap ${v}</p>, open: true }] });`;
    save(hub, "wrap", { "front/index.tsx": wrap("one") });
    save(hub, "afloat", { "front/index.tsx": wrap("no") });
    const { page, message, close } = await open(browser, hub);
    await panel(page, "wrap.p").getByText("wrap one").waitFor();
    await until(async () => /the page's own name/.test((await row(hub, "afloat")).front_error ?? ""), "a plugin cannot stand in for the page");
    await message.fill("half a message");
    remove(hub, "wrap", "afloat");
    await panel(page, "wrap.p").getByText("Plugin removed").waitFor();
    equal(await message.inputValue(), "half a message");
    save(hub, "wrap", { "front/index.tsx": wrap("two") });
    await panel(page, "wrap.p").getByText("wrap two").waitFor();
    equal(await message.inputValue(), "half a message");
    equal(await page.getByRole("button", { name: "Reload page" }).count(), 0, "it is the same provider");
    await close();
  },

  async "contributions that throw take nothing with them, a provider least of all"({ browser, hub }) {
    const { page, message, palette, watched, close } = await open(browser, hub);
    watched.allow.push(/sank/);
    save(hub, "hole", { "front/index.tsx": `import { definePlugin } from "afloat";
function Sunk() { throw new Error("the provider sank"); }
export default definePlugin({
  providers: [{ id: "w", component: Sunk }],
  bindings: [{ id: "b", component: () => { throw new Error("the binding sank"); } }],
  catalogs: [{ id: "c", title: "Wrecks", search: () => { throw new Error("the catalog sank"); }, onSelect() {} }],
  surfaceResolvers: [{ id: "s", kind: "chart", resolve: () => { throw new Error("the resolver sank"); } }],
  panels: [{ id: "p", title: "P", component: () => <p>afloat all the same</p>, open: true }],
  commands: [{ id: "down", title: "Go down", run: () => { throw new Error("the command sank"); } }],
  leftTabs: [{ id: "t", title: "Hold", component: () => { throw new Error("the tab sank"); } }],
});` });
    await until(async () => (await hub.api("GET", "/front/plugins")).plugins.some((l) => l.name === "hole"), "the plugin is there");
    let now = 0, most = 0;
    await page.goto("about:blank"); // the page of before reports no more
    await page.route("**/front/hole/report", async (route) => { // each replaces the one before: two at once could change places
      most = Math.max(most, ++now);
      await new Promise((done) => setTimeout(done, 100));
      now--;
      await route.continue().catch(() => undefined);
    });
    await page.goto(`${hub.origin}/`);
    await panel(page, "hole.p").getByText("afloat all the same").waitFor();
    await message.fill("still here");
    await until(async () => { // told one by one
      const found = (await row(hub, "hole")).diagnostics.map((d) => d.message).join();
      return /the provider sank/.test(found) && /the binding sank/.test(found);
    }, "the hub is told");
    await page.keyboard.press("Control+k");
    await palette.getByRole("combobox").fill("theme");
    await palette.getByRole("option", { name: "Theme: dark" }).waitFor();
    await page.getByRole("alert").filter({ hasText: "the catalog sank" }).waitFor();
    await page.keyboard.press("Escape");
    await palette.waitFor({ state: "detached" });
    await page.keyboard.press("Control+k");
    await palette.getByRole("combobox").fill("Go down");
    await palette.getByRole("option", { name: "Go down" }).click();
    await page.getByRole("tab", { name: "Hold" }).click();
    await page.getByText("Hold failed").waitFor();
    await page.getByRole("tab", { name: "Sessions" }).click();
    await hub.api("POST", "/ui/command", { kind: "open_surface", params: { kind: "chart" } }).catch(() => undefined);
    await until(async () => { // what failed when it was called is in the plugin's row too
      const found = (await row(hub, "hole")).diagnostics.map((d) => d.message).join();
      return ["Go down: the command", "Hold: the tab", "the catalog", "the resolver"].every((w) => found.includes(`${w} sank`));
    }, "all failures are told");
    equal(most, 1, "reports under way at once:");
    equal(await message.inputValue(), "still here");
    await close();
  },

  async "a plugin that loops without end stops one page, not every page after it"({ browser, hub }) {
    save(hub, "notes", { "front/index.tsx": notes("calm") });
    const { page, context } = await open(browser, hub);
    await panel(page, "notes.main").getByRole("heading", { name: "Notes calm" }).waitFor();
    save(hub, "whirl", { "front/index.tsx": `import { definePlugin } from "afloat";
for (;;) {}
export default definePlugin({});` });
    const late = (ms) => new Promise((done) => setTimeout(() => done("late"), ms));
    await until(async () => (await Promise.race([page.evaluate(() => "in time"), late(3000)])) === "late", "the page stands still");
    await page.close();
    const next = await context.newPage();
    await next.clock.setFixedTime(Date.now() + 60_000); // later, for the page that finds the mark
    await next.goto(`${hub.origin}/`);
    await panel(next, "notes.main").getByRole("heading", { name: "Notes calm" }).waitFor();
    await until(async () => /stood still/.test((await row(hub, "whirl")).front_error ?? ""), "the hub is told");
    const anyway = next.getByRole("button", { name: "Load it anyway" });
    await anyway.waitFor();
    await next.clock.resume();
    save(hub, "whirl", { "front/index.tsx": `import { definePlugin } from "afloat";
export default definePlugin({ panels: [{ id: "p", title: "P", component: () => <p>still water</p>, open: true }] });` });
    await panel(next, "whirl.p").getByText("still water").waitFor({ state: "attached" });
    await anyway.waitFor({ state: "detached" });
    await until(() => next.evaluate(() => Object.keys(localStorage).every((k) => !k.startsWith("afloat.loading."))), "no mark is left");
    const third = await context.newPage(); // a browser that was killed while it loaded this one leaves its mark, too
    const { hash, options } = (await hub.api("GET", "/front/plugins")).plugins.find((l) => l.name === "whirl");
    await next.evaluate((mark) => localStorage.setItem("afloat.loading.gone", JSON.stringify({ at: 0, marks: [mark] })), `whirl ${hash}${JSON.stringify(options)}`);
    await third.goto(`${hub.origin}/`);
    await third.getByRole("button", { name: "Load it anyway" }).click();
    await panel(third, "whirl.p").getByText("still water").waitFor({ state: "attached" });
    await until(async () => (await row(hub, "whirl")).front_error === null, "it is taken back");
    await context.close();
  },

  async "an edit of the server side or of options: only what changed is loaded again"({ browser, hub }) {
    const config = path.join(hub.home, "config.toml");
    const options = (word) => fs.writeFileSync(config, `[[plugins]]\npath = "${hub.home}/elsewhere/opt"\n[plugins.options]\nword = "${word}"\n`);
    const front = `import { definePlugin } from "afloat";
window.__loads = (window.__loads ?? 0) + 1;
export default definePlugin((options) => ({ panels: [{ id: "p", title: "P", component: () => <p>word {options.word}</p>, open: true }] }));`;
    fs.mkdirSync(`${hub.home}/elsewhere/opt/front`, { recursive: true });
    fs.writeFileSync(`${hub.home}/elsewhere/opt/front/index.tsx`, front);
    fs.writeFileSync(`${hub.home}/elsewhere/opt/init.lua`, "-- one\n");
    options("first");
    const { page, close } = await open(browser, hub);
    const p = panel(page, "opt.p");
    await p.getByText("word first").waitFor();
    const { revision } = await row(hub, "opt");
    fs.writeFileSync(`${hub.home}/elsewhere/opt/init.lua`, "-- two\n");
    await until(async () => (await row(hub, "opt")).revision > revision, "a new revision");
    options("second");
    await p.getByText("word second").waitFor();
    equal(await page.evaluate(() => window.__loads), 2, "not for the server side");
    await close();
  },

  async "what is wrong with a plugin is said by its side: in the conversation, or as a toast"({ browser, hub }) {
    const s = await hub.session();
    save(hub, "both", { "init.lua": "tool { name = 'fine', run = function() return 1 end }\n", "front/index.tsx": notes("one") });
    const { page, talk, plugins, close } = await open(browser, hub);
    await page.goto(`${hub.origin}/#/session/${s.id}`);
    await panel(page, "both.main").getByRole("heading", { name: "Notes one" }).waitFor();
    save(hub, "both", { "init.lua": "this is not Lua\n" });
    await talk.getByText(/Plugin both: .*syntax error/).waitFor();
    equal(await page.getByRole("alert").filter({ hasText: "syntax error" }).count(), 0, "not as a toast too");
    save(hub, "both", { "init.lua": "tool { name = 'fine', run = function() return 2 end }\n", "front/index.tsx": notes("x").replace("return (", "return ((") });
    await page.getByRole("alert").filter({ hasText: /Plugin both: .*front\/index.tsx:\d+/ }).first().waitFor();
    await hub.api("POST", "/ui/command", { kind: "open_panel", params: { panel: "plugins" } });
    await plugins.getByText(/both/).first().waitFor();
    await close();
  },

  async "a fault of the settings is said at once, in the conversation or as a toast"({ browser, hub }) {
    const config = path.join(hub.home, "config.toml");
    const s = await hub.session();
    const { page, talk, close } = await open(browser, hub);
    fs.writeFileSync(config, "listne = 1\n");
    await page.getByRole("alert").filter({ hasText: /^unknown key 'listne'.*config.toml:1/ }).first().waitFor();
    await page.goto(`${hub.origin}/#/session/${s.id}`);
    fs.writeFileSync(config, "# a line\nwacth = 1\n");
    await talk.getByText(/unknown key 'wacth'/).waitFor();
    equal(await page.getByText("Plugin null").count(), 0, "it is no plugin's");
    await close();
  },
};

/** Each begins without plugins and with the settings of the rig, whatever the one before left, once the hub knows it. */
let settings;
for (const [name, test] of Object.entries(tests)) {
  tests[name] = async (rig) => {
    const config = path.join(rig.hub.home, "config.toml");
    settings ??= fs.readFileSync(config);
    fs.writeFileSync(config, settings);
    fs.rmSync(path.join(rig.hub.home, "plugins"), { recursive: true, force: true });
    await rig.hub.api("POST", "/reload", {});
    await until(async () => (await rig.hub.api("GET", "/front/plugins")).plugins.length === 0, "no plugin is left");
    await test(rig);
  };
}
