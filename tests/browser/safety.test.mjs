// Text from models, tools, files and plugins stays text; the cookie stays at home.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { assert, axe, equal, open } from "./rig.mjs";

const EVIL = [
  "<img src=x onerror=\"window.__pwned='img'\">",
  "<script>window.__pwned='script'</script>",
  "[click](javascript:window.__pwned='link')",
  "![pixel](http://tracker.invalid/pixel.png)",
  "<iframe srcdoc=\"<script>parent.__pwned='frame'</script>\"></iframe>",
  "<svg/onload=window.__pwned='svg'>",
  "[data](data:text/html,<script>window.__pwned=1</script>)",
  "<a href=\"javascript:window.__pwned=1\">x</a>",
  "&lt;b&gt; &#60;img src=x onerror=window.__pwned=1&#62;",
];

export const tests = {
  async "nothing that a model, tool, file, title or plugin says becomes markup"({ browser, hub }) {
    const name = "<img src=x onerror=window.__pwned='file'>.txt";
    fs.writeFileSync(path.join(hub.project, name), EVIL.join("\n"));
    fs.mkdirSync(path.join(hub.home, "plugins"), { recursive: true });
    fs.writeFileSync(path.join(hub.home, "plugins/evil.lua"), `error("${EVIL[0].replaceAll('"', '\\"')}")\n`);
    const s = await hub.session({ title: EVIL[0], permission: "auto", ...hub.scenario([
      { reasoning: EVIL.join("\n"), text: EVIL.join("\n\n"), tool_calls: [
        { name: "list_files", input: {} }, { name: "read_file", input: { path: name } }, { name: "shell", input: { cmd: `echo "${"<b>shell</b>"}" '${EVIL[1]}'` } },
        { name: "write_file", input: { path: "<svg onload=window.__pwned=2>.html", content: EVIL.join("\n") } }] },
      { tool_calls: [{ name: "ask_user", input: { question: EVIL[0], choices: [EVIL[1], EVIL[5]] } }] },
      { text: "over" },
    ]) });
    const p = await open(browser, hub);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.message.fill(EVIL.join("\n"));
    await p.send.click();
    const card = p.page.getByRole("region", { name: "Question" });
    await card.waitFor();
    await card.getByRole("button").first().click();
    await p.talk.getByText("over", { exact: true }).waitFor();
    for (const folded = p.talk.locator('.tool-head[aria-expanded="false"]'); await folded.count() > 0;) await folded.first().click();
    await p.page.getByRole("tab", { name: "Files" }).click();
    await p.page.getByRole("treeitem", { name }).click();
    await p.page.locator('[data-panel-id="afloat.file"] .cm-content').getByText("onerror").first().waitFor();
    await p.plugins.getByText("evil").first().click();
    await p.page.locator('[data-panel-id="afloat.plugin"]').getByText("onerror").first().waitFor();
    await p.page.getByRole("button", { name: "Events and logs" }).click();
    await p.page.locator('[data-panel-id="afloat.events"]').getByText("onerror").first().waitFor();
    equal(await p.page.evaluate(() => window.__pwned ?? null), null, "a script ran:");
    equal(await p.page.locator("img, iframe, .conversation script, .md svg").count(), 0, "elements made from text:");
    const links = await p.page.locator(".conversation a").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
    assert(links.every((l) => /^(https?:|mailto:)/.test(l)), `links: ${links}`);
    await p.close(); // no foreign request, no violation
  },

  async "names of bots, terminals, panels and commands, notes and prompts stay text too"({ browser, hub }) {
    const evil = EVIL[0];
    fs.mkdirSync(path.join(hub.home, "plugins/vile/front"), { recursive: true });
    fs.writeFileSync(path.join(hub.home, "plugins/vile/front/index.tsx"), `import { definePlugin } from "afloat";
const evil = ${JSON.stringify(evil)};
export default definePlugin({
  panels: [{ id: "p", title: evil, component: () => <p>{evil}</p>, open: true }], leftTabs: [{ id: "t", title: evil, icon: evil, component: () => <p>{evil}</p> }],
  commands: [{ id: "c", title: "vile " + evil, shortcut: evil, run: (hub) => hub.toast(evil) }], catalogs: [{ id: "k", title: evil, search: () => [{ id: evil, title: evil, detail: evil }], onSelect() {} }],
});`);
    await hub.api("POST", "/bots", { name: "vile", description: evil, instructions: evil });
    const pty = await hub.api("POST", "/pty", { cmd: "printf", args: ["\\033]0;%s\\007%s", evil, evil], name: evil.slice(0, 12) });
    const p = await open(browser, hub);
    await p.page.locator('[data-panel-id="vile.p"]').getByText(evil).waitFor();
    await hub.api("POST", "/ui/command", { kind: "notify", params: { text: evil, kind: "warning" } });
    await p.page.getByRole("alert").filter({ hasText: evil }).waitFor();
    await hub.api("POST", "/ui/command", { kind: "open_panel", params: { panel: "terminal", params: { key: pty.id, id: pty.id } } });
    await p.page.getByRole("tab", { name: "Bots" }).click();
    await p.page.getByRole("button", { name: /^vile/ }).first().click();
    await p.page.locator('[data-panel-id="afloat.bot"]').getByText("onerror").first().waitFor();
    await p.page.getByRole("tab", { name: evil }).first().click();
    await p.page.keyboard.press("Control+k");
    await p.palette.getByRole("combobox").fill("vile <img");
    await p.palette.getByRole("option", { name: /^vile/ }).first().click();
    await p.page.getByRole("status").filter({ hasText: evil }).waitFor();
    equal(await p.page.evaluate(() => window.__pwned ?? null), null, "a script ran:");
    equal(await p.page.locator("img, iframe").count(), 0, "elements made from text:");
    await p.close();
    fs.rmSync(path.join(hub.home, "plugins/vile"), { recursive: true });
  },

  async "no text or name of a model takes the page away"({ browser, hub }) {
    hub.write("x.constructor", "int x;\n");
    const s = await hub.session(hub.scenario([
      { text: `${">".repeat(5000)} deep`, tool_calls: [{ name: "read_file", input: { path: "x.constructor" } }, { name: "constructor", input: {} }] }, { text: "shallow" },
    ]));
    await hub.turn(s.id, "go");
    const p = await open(browser, hub);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.talk.getByText("shallow", { exact: true }).waitFor();
    await p.talk.getByText(">>>> deep").waitFor();
    await p.talk.locator('[data-tool="read_file"] .tool-head').click();
    await p.talk.getByText("int x;").waitFor();
    p.watched.allow.push(/404/);
    await p.page.goto(`${hub.origin}/#/session/constructor`);
    await p.talk.getByText("The conversation could not be read").waitFor();
    equal(await p.message.inputValue(), "");
    equal(await p.page.getByRole("alert").filter({ hasText: "failed" }).count(), 0, "error cards:");
    await p.close();
  },

  async "the policy forbids inline script, other hosts and frames; files are cached for good"({ browser, hub }) {
    const p = await open(browser, hub);
    const get = (url) => p.page.evaluate(async (u) => {
      const r = await fetch(u);
      return { policy: r.headers.get("content-security-policy"), cache: r.headers.get("cache-control"), text: await r.text() };
    }, url);
    const { policy, text: html } = await get("/");
    assert(/default-src 'none'/.test(policy) && !/unsafe/.test(policy) && /frame-ancestors 'none'/.test(policy), policy);
    const file = /src="(\/assets\/main-[^"]+)"/.exec(html)[1];
    assert(/immutable/.test((await get(file)).cache), "immutable");
    const refused = await p.page.evaluate(async () => {
      const s = document.createElement("script");
      s.textContent = "window.__inline = 1";
      document.head.append(s);
      return [window.__inline ?? null, await fetch("http://127.0.0.1:9/").then(() => "ok", () => "refused")];
    });
    equal(refused, [null, "refused"]);
    p.watched.faults.length = 0; // they were asked for
    await p.page.evaluate(() => { window.__violations = []; });
    await p.close();
  },

  async "other servers on this machine never get the cookie"({ browser, hub }) {
    const seen = [];
    const other = http.createServer((q, r) => { seen.push(q.headers.cookie ?? ""); r.end("<title>other</title>"); });
    await new Promise((done) => other.listen(0, "127.0.0.1", done));
    const { port } = other.address();
    const p = await open(browser, hub);
    const cookies = await p.context.cookies();
    equal(cookies.map((c) => [c.name, c.domain, c.httpOnly, c.sameSite]), [["afloat", "afloat.localhost", true, "Strict"]]);
    equal(await p.page.evaluate(() => document.cookie), "", "scripts see the cookie:");
    const page = await p.context.newPage();
    for (const host of ["localhost", "127.0.0.1", "other.localhost", "x.afloat.localhost"]) await page.goto(`http://${host}:${port}/`);
    assert(seen.length >= 4 && seen.every((c) => !c.includes("afloat")), `cookies: ${seen}`);
    await page.close();
    other.close();
    await p.close();
  },

  async "axe finds nothing serious, light and dark, wide and narrow"({ browser, hub }) {
    const s = await hub.session({ title: "axe", permission: "ask", ...hub.scenario([
      { reasoning: "hm", text: "# Title\n\n`code` and [link](https://example.org)\n\n```c\nint x = 1; // c\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |", tool_calls: [{ name: "shell", input: { cmd: "date" } }] }, { text: "end" },
    ]) });
    await hub.api("POST", `/session/${s.id}/message`, { text: "go" });
    for (const colorScheme of ["light", "dark"]) {
      const p = await open(browser, hub, { colorScheme, bypassCSP: true });
      await p.page.goto(`${hub.origin}/#/session/${s.id}`);
      await p.page.getByRole("region", { name: "Permission for shell" }).waitFor();
      await axe(p.page, `conversation, ${colorScheme}`);
      for (const [button, panel] of [["Settings", "settings"], ["Events and logs", "events"], ["All plugins", "plugins"], ["Keyboard help", "help"], ["Environment", "environment"]]) {
        await p.page.getByRole("button", { name: button, exact: true }).click();
        await p.page.locator(`[data-panel-id="afloat.${panel}"] h2`).first().waitFor();
      }
      await axe(p.page, `dock, ${colorScheme}`);
      await p.page.keyboard.press("Control+k");
      await p.palette.getByRole("option").first().waitFor();
      await axe(p.page, `palette, ${colorScheme}`);
      await p.page.keyboard.press("Escape");
      await p.page.setViewportSize({ width: 320, height: 640 });
      await axe(p.page, `narrow, ${colorScheme}`);
      await p.context.close();
    }
  },
};
