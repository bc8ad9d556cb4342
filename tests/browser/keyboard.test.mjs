// Everything without a mouse, and the whole page in 320 pixels.
import fs from "node:fs";
import path from "node:path";
import { assert, equal, open, root } from "./rig.mjs";

/** Press a key until the focus is on what `selector` names. */
async function pressUntil(page, key, selector, most = 60) {
  for (let i = 0; i < most; i++) {
    if (await page.evaluate((s) => document.activeElement?.matches(s) ?? false, selector)) return;
    await page.keyboard.press(key);
  }
  throw new Error(`${key} never came to ${selector}; focus is on ${await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 120))}`);
}

/** Reload until the hub has a command. */
async function offered(hub, name) {
  while (!(await hub.api("GET", "/command")).commands.some((c) => c.name === name)) await hub.api("POST", "/reload", {});
}

/** The MCP server `fake`, of tests/functional. */
async function fakeServer(hub) {
  const [config, server] = [path.join(hub.home, "config.toml"), path.join(root, "tests/functional/mcp_fake.py")];
  if (!fs.readFileSync(config, "utf8").includes("[mcp.fake]")) fs.appendFileSync(config, `[mcp.fake]\ncommand = "/usr/bin/python3"\nargs = [${JSON.stringify(server)}]\nsandbox = false\n`);
  await offered(hub, "mcp:fake:greet");
}

export const tests = {
  async "keys alone: begin, answer, walk, search, open a panel, leave it"({ browser, hub }) {
    await hub.session({ title: "anchor" });
    const s = await hub.session({ title: "buoy", permission: "ask", ...hub.scenario([{ tool_calls: [{ name: "shell", input: { cmd: "true" } }] }, { text: "done by keys" }]) });
    const p = await open(browser, hub);
    const { page } = p;
    await page.keyboard.press("Control+k");
    await p.palette.waitFor();
    await page.keyboard.type("buoy");
    await p.palette.getByRole("option", { name: /buoy/ }).first().waitFor();
    await page.keyboard.press("Enter");
    await page.locator(`[data-session="${s.id}"]`).waitFor();
    await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Message");
    await page.keyboard.type("do it");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("please");
    equal(await p.message.inputValue(), "do it\nplease");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Permission for shell" }).waitFor();
    await pressUntil(page, "Shift+Tab", ".ask .button.primary");
    await page.keyboard.press("Enter");
    await p.talk.getByText("done by keys").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.press("ArrowUp"); // what was said before
    equal(await p.message.inputValue(), "do it\nplease");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    equal(await p.message.inputValue(), "");
    await page.keyboard.type("/hel");
    await page.getByRole("option", { name: /\/help/ }).waitFor();
    await page.keyboard.press("Tab");
    await page.locator('[data-panel-id="afloat.help"]').getByText("Command palette:").waitFor();
    await page.keyboard.press("Alt+ArrowDown");
    await p.sessions.locator('[aria-current="page"]').getByText("anchor").waitFor();
    await pressUntil(page, "F6", ".sidebar [role=tab]");
    await page.keyboard.press("ArrowRight");
    await page.getByRole("tree", { name: "Files" }).or(page.getByText("The directory is empty.")).first().waitFor();
    await page.keyboard.press("ArrowLeft");
    await p.close();
  },

  async "keys alone: panels are chosen, split, maximised and closed"({ browser, hub }) {
    const p = await open(browser, hub);
    const { page } = p;
    const command = async (words) => {
      await page.keyboard.press("Control+k");
      await p.palette.waitFor();
      await page.keyboard.type(words);
      await p.palette.getByRole("option", { name: words }).first().waitFor();
      await page.keyboard.press("Enter");
    };
    for (const title of ["Settings", "Plugins", "Keyboard"]) {
      await command(`Open: ${title}`);
      await page.getByRole("tab", { name: title, selected: true }).waitFor();
    }
    await pressUntil(page, "F6", ".dv-tab");
    await page.keyboard.press("Home");
    await page.getByRole("tab", { name: "Settings", selected: true }).waitFor();
    await page.keyboard.press("ArrowRight");
    await page.locator('[data-panel-id="afloat.plugins"] h2').waitFor();
    await command("Panel: move to the right");
    await page.waitForFunction(() => document.querySelectorAll(".dv-groupview").length === 2);
    await command("Panel: maximise");
    await page.locator(".dv-groupview:visible").nth(1).waitFor({ state: "detached" });
    await command("Panel: maximise");
    await page.locator(".dv-groupview:visible").nth(1).waitFor();
    await pressUntil(page, "Tab", ".dv-tab");
    await page.keyboard.press("Delete");
    await page.waitForFunction(() => document.querySelectorAll(".dv-tab").length === 2);
    for (let left = 2; left > 0; left--) {
      await command("Panel: close");
      await page.waitForFunction((n) => document.querySelectorAll(".dv-tab").length === n, left - 1);
    }
    await p.close();
  },

  async "Enter in the palette runs what was typed, however slowly the list follows"({ browser, hub }) {
    const p = await open(browser, hub);
    const slow = await p.context.newCDPSession(p.page);
    for (const title of ["Settings", "Terminals", "Environment"]) {
      await p.page.keyboard.press("Control+k");
      await p.palette.getByRole("option").nth(30).waitFor();
      await slow.send("Emulation.setCPUThrottlingRate", { rate: 10 });
      await p.palette.getByRole("combobox").evaluate((input, text) => {
        Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, text); // as React hears a key
        input.dispatchEvent(new InputEvent("input", { bubbles: true }));
        input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      }, `Open: ${title}`);
      await slow.send("Emulation.setCPUThrottlingRate", { rate: 1 });
      await p.page.locator(".dv-active-tab", { hasText: title }).waitFor();
    }
    await p.close();
  },

  async "the palette opens again at once after Enter, and what was chosen is done"({ browser, hub }) {
    const p = await open(browser, hub);
    const slow = await p.context.newCDPSession(p.page);
    await p.page.keyboard.press("Control+k");
    await p.palette.getByRole("option").nth(30).waitFor();
    await slow.send("Emulation.setCPUThrottlingRate", { rate: 10 });
    await p.palette.getByRole("combobox").evaluate(async (input) => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, "Open: Settings");
      input.dispatchEvent(new InputEvent("input", { bubbles: true }));
      input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      await null; // as between two keys
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }));
    });
    await slow.send("Emulation.setCPUThrottlingRate", { rate: 1 });
    await p.palette.waitFor();
    await p.page.locator(".dv-active-tab", { hasText: "Settings" }).waitFor();
    equal(await p.palette.getByRole("combobox").inputValue(), "");
    await p.close();
  },

  async "files complete after @ and drafts stay with their session"({ browser, hub }) {
    hub.write("chart/depths.csv", "1\n");
    const a = await hub.session({ title: "a" });
    const b = await hub.session({ title: "b" });
    const p = await open(browser, hub);
    await p.page.goto(`${hub.origin}/#/session/${a.id}`);
    await p.page.locator(`[data-session="${a.id}"]`).waitFor();
    await p.message.pressSequentially("look at @dep");
    await p.page.getByRole("option", { name: "chart/depths.csv" }).waitFor();
    await p.page.keyboard.press("Enter");
    equal(await p.message.inputValue(), "look at @chart/depths.csv ");
    await p.page.goto(`${hub.origin}/#/session/${b.id}`);
    await p.page.locator(`[data-session="${b.id}"]`).waitFor();
    equal(await p.message.inputValue(), "");
    await p.page.goto(`${hub.origin}/#/session/${a.id}`);
    await p.page.waitForFunction(() => document.querySelector("[aria-label=Message]").value.startsWith("look at"));
    await p.close();
  },

  async "/ runs commands of plugins and prompts of MCP servers, and completes the words of prompts"({ browser, hub }) {
    fs.mkdirSync(path.join(hub.home, "plugins"), { recursive: true });
    fs.writeFileSync(path.join(hub.home, "plugins/greet.lua"), 'command { name = "hello", description = "greets", run = function(args) return "Hello, " .. args[1] .. "!" end }');
    await fakeServer(hub);
    await offered(hub, "greet:hello");
    const s = await hub.session(hub.scenario([{ when: "greet Grace, loudly", text: "good day" }]));
    const p = await open(browser, hub);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.message.pressSequentially("/hel");
    await p.page.getByRole("option", { name: "/greet:hello" }).waitFor();
    await p.page.keyboard.press("ArrowUp"); // the last one
    await p.page.keyboard.press("Enter");
    equal(await p.message.inputValue(), "/greet:hello ");
    await p.message.pressSequentially("Ada");
    await p.page.keyboard.press("Enter");
    await p.page.getByText("Hello, Ada!").waitFor();
    equal(await p.message.inputValue(), "");
    await p.message.pressSequentially("/mcp:fake:greet G");
    await p.page.getByRole("option", { name: "Grace", exact: true }).waitFor();
    await p.page.keyboard.press("Tab");
    equal(await p.message.inputValue(), "/mcp:fake:greet Grace ");
    await p.page.getByRole("option", { name: "softly" }).waitFor();
    await p.message.pressSequentially("loudly");
    await p.page.getByRole("option", { name: "loudly" }).waitFor(); // Enter sends nevertheless
    await p.page.keyboard.press("Enter");
    await p.talk.getByText("good day").waitFor();
    await p.close();
  },

  async "Enter sends the words of a prompt also when nothing completes them"({ browser, hub }) {
    await fakeServer(hub);
    const s = await hub.session(hub.scenario([{ when: "greet Ada", text: "good evening" }]));
    const p = await open(browser, hub);
    p.watched.allow.push(/500/);
    await p.page.route("**/complete*", (route) => route.fulfill({ status: 500, json: { error: { code: "INTERNAL", message: "it sank" } } }));
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.message.pressSequentially("/mcp:fake:gree");
    await p.page.getByRole("option", { name: "/mcp:fake:greet" }).waitFor();
    await p.message.pressSequentially("t ");
    await Promise.all([p.page.waitForResponse(/complete/), p.message.pressSequentially("Ada")]);
    await p.page.keyboard.press("Enter");
    await p.talk.getByText("good evening").waitFor();
    equal(await p.message.inputValue(), "");
    await p.close();
  },

  async "@ completes resources of MCP servers and the variables of their templates, and adds their text"({ browser, hub }) {
    await fakeServer(hub);
    const s = await hub.session(hub.scenario([{ when: "text of note://tue/x", text: "well read" }]));
    const p = await open(browser, hub);
    p.watched.allow.push(/404/);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.message.pressSequentially("see @fake:");
    await p.page.getByRole("option", { name: "fake:note:///first" }).waitFor();
    await p.page.getByRole("option", { name: "fake:note://", exact: true }).waitFor();
    await p.message.pressSequentially("note://t");
    await p.page.getByRole("option", { name: "fake:note://tue/" }).waitFor();
    await p.page.keyboard.press("Tab");
    equal(await p.message.inputValue(), "see @fake:note://tue/");
    const completed = p.page.waitForResponse((r) => /complete/.test(r.url()) && decodeURIComponent(r.url() + (r.request().postData() ?? "")).includes("note://tue/x"));
    await p.message.pressSequentially("x");
    await completed;
    await p.page.getByRole("listbox", { name: "Suggestions" }).waitFor({ state: "detached" });
    await p.page.keyboard.press("Enter");
    await p.talk.getByText("well read").waitFor();
    await p.message.fill("see @nobody:x://y");
    await p.page.keyboard.press("Enter");
    await p.page.getByText("@nobody:x://y could not be read; it stays a word").waitFor();
    await p.close();
  },

  async "what is typed before the sessions are known belongs to the session on screen"({ browser, hub }) {
    const s = await hub.session({ title: "early" });
    const p = await open(browser, hub);
    let go;
    const held = new Promise((done) => { go = done; });
    await p.page.route("**/session?*", async (route) => { await held; await route.continue(); });
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.reload();
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.message.fill("too early?");
    go();
    await p.sessions.getByText("early").waitFor();
    equal(await p.message.inputValue(), "too early?");
    await p.send.click();
    await p.talk.locator(".user-text").getByText("too early?").waitFor();
    await p.close();
  },

  async "320 pixels: nothing is cut off, every part can be reached"({ browser, hub }) {
    const s = await hub.session({ title: "narrow", permission: "ask", ...hub.scenario([
      { text: "| a | b |\n|---|---|\n| " + "wide".repeat(40) + " | 2 |\n\n```\n" + "x".repeat(300) + "\n```", tool_calls: [{ name: "shell", input: { cmd: "echo " + "y".repeat(200) } }] }, { text: "end" },
    ]) });
    const p = await open(browser, hub, { viewport: { width: 320, height: 640 }, hasTouch: true });
    const fits = async (what) => {
      const [w, max] = await p.page.evaluate(() => [document.scrollingElement.scrollWidth, window.innerWidth]);
      assert(w <= max, `${what}: ${w} of ${max} pixels`);
    };
    await p.page.getByRole("button", { name: "Open the sidebar" }).tap();
    await p.sessions.getByText("narrow").tap();
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.message.fill("go");
    await p.send.tap();
    await p.page.getByRole("button", { name: /Allow once/ }).waitFor();
    await fits("the conversation");
    await p.page.getByRole("button", { name: /Allow once/ }).tap();
    await p.talk.getByText("end", { exact: true }).waitFor();
    await p.page.getByRole("button", { name: "Open the sidebar" }).tap();
    await p.plugins.waitFor();
    await fits("the sidebar");
    await p.page.getByRole("button", { name: "Settings", exact: true }).tap();
    await p.page.locator('[data-panel-id="afloat.settings"]').getByText("Appearance").waitFor();
    await fits("the dock");
    await p.page.getByRole("button", { name: "Back to the conversation" }).tap();
    await p.message.waitFor();
    for (const b of await p.page.locator("header.head button:visible, .composer button:visible").all()) {
      const box = await b.boundingBox();
      assert(box.width >= 24 && box.height >= 24, `a target of ${box.width}x${box.height}`);
    }
    await p.close();
  },

  async "a message that arrives late takes the focus from no other part"({ browser, hub }) {
    const s = await hub.session(hub.scenario([{ text: "one" }, { text: "two" }]));
    const p = await open(browser, hub);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.message.fill("first");
    await p.send.click();
    await p.talk.getByText("one").waitFor();
    let release;
    const held = new Promise((done) => { release = done; });
    await p.page.route("**/message", async (route) => { await held; await route.continue(); });
    await p.message.fill("second");
    await p.send.click();
    await p.message.fill("third"); // it cannot be sent before the second is
    await p.page.locator(".scroller").focus();
    release();
    await p.page.waitForFunction(() => document.querySelector("[aria-label=Send]")?.disabled === false);
    equal(await p.page.evaluate(() => document.activeElement.className), "scroller");
    await p.close();
  },
};
