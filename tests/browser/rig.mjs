// A hub of its own, one browser, and pages that are watched: what a browser test needs.
//
// A page fails its test when anything is written to the console as an error, an exception is not caught,
// the policy is violated, or a request goes to any other host.
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";

export const root = path.resolve(path.dirname(new URL(import.meta.url).pathname), "../..");
const require = createRequire(path.join(root, "web/package.json"));
const { chromium } = require("playwright-core");
const axeSource = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
export const BIN = path.resolve(process.env.AFLOAT_BIN ?? path.join(root, "build/asan/afloat"));
export const DEADLINE = 60_000;

export function assert(what, message) {
  if (!what) throw new Error(message ?? "assertion failed");
}
export function equal(got, want, message = "") {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  assert(a === b, `${message} got ${a}, want ${b}`);
}

// Chromium's own pages in each new window are four hundred requests; the others are those that playwright switches off.
const without = ["WebUIOmniboxPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxAimPopup", "AiModeOmniboxEntryPoint", "OmniboxContextMenu",
  "DestroyProfileOnBrowserClose", "DialMediaRouteProvider", "GlobalMediaControls", "HttpsUpgrades", "LensOverlay", "MediaRouter", "PaintHolding",
  "ThirdPartyStoragePartitioning", "Translate", "RenderDocument"];

/** Start a browser; the flags keep it from calling anybody. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.AFLOAT_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", `--disable-features=${without.join(",")}`],
  });
}

/** A private home with a hub on a fixed port, and a project to work in. */
export class Hub {
  constructor() {
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), "afloat-page-"));
    this.home = path.join(this.dir, "home");
    this.project = path.join(this.dir, "project");
    fs.mkdirSync(this.home);
    fs.mkdirSync(this.project);
    this.env = { PATH: process.env.PATH, HOME: this.dir, LANG: "C.UTF-8", AFLOAT_HOME: this.home, AFLOAT_PROVIDER: "scripted" };
    for (const [k, v] of Object.entries(process.env)) if (k.endsWith("SAN_OPTIONS")) this.env[k] = v;
    this.played = path.join(this.dir, "scenario.jsonl");
    fs.writeFileSync(path.join(this.home, "config.toml"), `[providers.play]\nkind = "scripted"\nscenario = ${JSON.stringify(this.played)}\n`);
    this.port = 0;
    this.child = null;
    this.said = "";
  }

  /** Lines that the model says, one per request; see docs/guide/scenarios.md. */
  scenario(lines) {
    fs.writeFileSync(this.played, lines.map((l) => JSON.stringify(l)).join("\n") + "\n");
    return { provider: "play" };
  }

  async start() {
    const child = spawn(BIN, ["hub", "--listen", `127.0.0.1:${this.port}`], { env: this.env, cwd: this.project, stdio: ["ignore", "pipe", "pipe"] });
    this.child = child;
    child.stderr.on("data", (d) => { this.said += d; });
    this.ended = new Promise((done) => child.on("exit", done));
    const line = await new Promise((done, fail) => {
      let text = "";
      child.stdout.on("data", (d) => { text += d; if (text.includes("\n")) done(text); });
      child.on("exit", () => fail(new Error(`the hub ended: ${text}${this.said}`)));
    });
    const at = /http=127\.0\.0\.1:(\d+)/.exec(line);
    assert(at, `the hub said ${line}`);
    this.port = Number(at[1]);
    this.origin = `http://afloat.localhost:${this.port}`;
  }
  async kill(signal = "SIGKILL") {
    this.child.kill(signal);
    await this.ended;
  }
  async stop() {
    if (this.child && this.child.exitCode === null && this.child.signalCode === null) await this.kill("SIGTERM");
    assert(!/Sanitizer|runtime error:|Assertion .* failed/.test(this.said), this.said);
    fs.rmSync(this.dir, { recursive: true, force: true, maxRetries: 20 }); // a terminal's keeper may just be ending in it
  }

  /** A request over the socket, as the command line makes it. */
  api(method, route, body) {
    return new Promise((done, fail) => {
      const text = body === undefined ? "" : JSON.stringify(body);
      const headers = { Host: "test", Accept: "application/json", ...(text ? { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) } : {}) };
      const r = http.request({ socketPath: path.join(this.home, "run/hub.sock"), method, path: route, headers }, (answer) => {
        let all = "";
        answer.setEncoding("utf8");
        answer.on("data", (d) => { all += d; });
        answer.on("end", () => {
          const data = all ? JSON.parse(all) : null;
          if (answer.statusCode < 400) done(data);
          else fail(new Error(`${method} ${route}: ${all}`));
        });
      });
      r.on("error", fail);
      r.end(text);
    });
  }
  /** An address that lets a browser in, once. */
  async address() {
    const { url, code } = await this.api("POST", "/open", {});
    return url ?? `${this.origin}/?code=${code}`;
  }
  async session(more = {}) {
    return this.api("POST", "/session", { working_dir: this.project, permission: "auto", ...more });
  }
  /** Say something and wait for the end of the turn. */
  async turn(id, text) {
    return this.api("POST", `/session/${id}/message`, { text, wait: true });
  }
  write(name, text) {
    const file = path.join(this.project, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  }
  read(name) {
    return fs.readFileSync(path.join(this.project, name), "utf8");
  }
}

/** What went wrong on a page besides the test's own assertions. `allow` are patterns that are expected. */
export function watch(page, origin) {
  const faults = [];
  const allow = [];
  const note = (text) => { if (!allow.some((a) => a.test(text))) faults.push(text); };
  page.on("console", (m) => { if (m.type() === "error") note(`console: ${m.text()} ${m.location().url ?? ""}`); });
  page.on("pageerror", (e) => note(`exception: ${e.stack ?? e}`));
  page.on("request", (r) => {
    const url = r.url();
    if (!url.startsWith(origin) && !/^(data|blob|about):/.test(url)) note(`foreign request: ${url}`);
  });
  return { faults, allow, check() { equal(faults, [], "the page had faults:"); } };
}

/** A new page, signed in. */
export async function open(browser, hub, more = {}, address = null) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...more });
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE);
  const watched = watch(page, hub.origin);
  await page.addInitScript(() => {
    window.__violations = [];
    document.addEventListener("securitypolicyviolation", (e) => window.__violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
  });
  await page.goto(address ?? (await hub.address()));
  await page.getByRole("textbox", { name: "Message" }).waitFor();
  await page.waitForFunction(() => document.activeElement !== document.body); // the page's keys work from here on
  return {
    page, context, watched,
    message: page.getByRole("textbox", { name: "Message" }),
    send: page.getByRole("button", { name: "Send", exact: true }),
    stop: page.getByRole("button", { name: "Stop", exact: true }),
    talk: page.getByRole("region", { name: "Conversation" }),
    sessions: page.getByRole("navigation", { name: "Sessions" }),
    plugins: page.getByRole("region", { name: "Plugins" }),
    palette: page.getByRole("dialog", { name: "Command palette" }),
    async close() {
      equal(await page.evaluate(() => window.__violations), [], "the policy was violated:");
      watched.check();
      await context.close();
    },
  };
}

/** No serious or critical finding of axe in what `selector` names. The page must be opened with `bypassCSP`. */
export async function axe(page, where, selector = "html", rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource);
  const found = await page.evaluate(([s, runOnly]) => window.axe.run({ include: s }, { runOnly, resultTypes: ["violations"] }), [selector, rules]);
  const bad = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
    .map((v) => `${v.id} (${v.impact}): ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.failureSummary?.split("\n")[1] ?? ""}`).join(" | ")}`);
  equal(bad, [], `${where}:`);
}
