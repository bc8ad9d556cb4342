// The panels of the page: what they tell, what can be done there, and that anybody can use them.
import fs from "node:fs";
import path from "node:path";
import { assert, axe, DEADLINE, equal, open } from "./rig.mjs";

const panel = (p, name) => p.page.locator(`[data-panel-id="afloat.${name}"]`);

/** Open a panel with the palette. */
async function show(p, title) {
  await p.page.keyboard.press("Control+k");
  await p.palette.getByRole("combobox").fill(`Open: ${title}`);
  await p.palette.getByRole("option", { name: `Open: ${title}` }).first().waitFor();
  await p.page.keyboard.press("Enter");
  await p.palette.waitFor({ state: "detached" });
}
async function at(p, hub, id) {
  await p.page.goto(`${hub.origin}/#/session/${id}`);
  await p.page.locator(`[data-session="${id}"]`).waitFor();
}
function plugin(hub, name, text) {
  fs.mkdirSync(path.join(hub.home, "plugins"), { recursive: true });
  fs.writeFileSync(path.join(hub.home, "plugins", name), text);
}

export const tests = {
  async "a plugin's timing is a table, an error opens at its line, a generation can be gone back to"({ browser, hub }) {
    plugin(hub, "gauge.lua", 'on_tool_call(function() end)\ntool{ name = "depth", description = "d", run = function() return "9" end }\n');
    await hub.api("POST", "/reload", {});
    for (let i = 0; i < 3; i++) await hub.api("POST", "/tool/depth", { input: {} });
    const p = await open(browser, hub);
    await p.plugins.locator('[data-plugin="gauge"]').getByRole("button").click();
    const one = panel(p, "plugin");
    await one.locator('[data-timing="depth"]').waitFor();
    const cells = await one.locator('[data-timing="depth"] td').allTextContents();
    equal([cells[0], cells[1], cells[2]], ["tool depth", "3", "0"]);
    assert(/^[\d.]+ (µs|ms)$/.test(cells[3]) && /^[\d.]+ (µs|ms)$/.test(cells[4]), `times: ${cells}`);
    equal(await one.locator('[data-timing="on_tool_call"] td').count(), 5, "hooks have their row");
    plugin(hub, "gauge.lua", "local a = 1\nlocal b = = 2\n");
    await one.getByRole("button", { name: /gauge\.lua:2$/ }).click();
    const editor = panel(p, "file").locator(".cm-content");
    await editor.getByText("local b = = 2").waitFor();
    await p.page.locator(".cm-activeLine", { hasText: "local b" }).waitFor();
    plugin(hub, "gauge.lua", 'tool{ name = "fathom", description = "d", run = function() return "1" end }\n');
    await show(p, "Plugins");
    const all = panel(p, "plugins");
    await all.getByText("~gauge").waitFor();
    for (const [item, state] of [["Disable", "attached"], ["Enable", "detached"]]) {
      await all.getByRole("button", { name: "Actions for gauge" }).click();
      await p.page.getByRole("menuitem", { name: item }).click();
      await all.locator('[data-plugin="gauge"]').getByText("disabled").waitFor({ state });
    }
    await all.locator("li", { hasText: "+gauge" }).last().getByRole("button", { name: "Go back" }).click();
    await p.page.getByRole("dialog").getByRole("button", { name: "Go back" }).click();
    await p.page.getByRole("status").getByText(/Undone: generation \d+ has the versions of generation/).waitFor();
    assert((await hub.api("GET", "/plugin/gauge")).tools.includes("depth"), "the earlier version serves");
    fs.rmSync(path.join(hub.home, "plugins/gauge.lua"));
    await p.close();
  },

  async "a bot's memory and skills are written, its history leads to sessions"({ browser, hub }) {
    await hub.api("POST", "/bots", { name: "mate", description: "helps", instructions: "Be brief." });
    const s = await hub.session();
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    await p.page.getByRole("tab", { name: "Bots" }).click();
    await p.page.getByRole("button", { name: /^mate/ }).click();
    const bot = panel(p, "bot");
    await bot.getByRole("button", { name: "Memory" }).click();
    await bot.getByText("Nothing remembered yet").waitFor();
    await bot.getByLabel("Key").fill("style");
    await bot.getByLabel("Value").fill("two <b>spaces</b>");
    await bot.getByRole("button", { name: "Remember" }).click();
    await bot.getByText("two <b>spaces</b>").waitFor();
    await bot.getByRole("button", { name: "Forget style" }).click();
    await bot.getByText("Nothing remembered yet").waitFor();
    await bot.getByRole("button", { name: "Skills" }).click();
    await bot.getByRole("button", { name: "New skill" }).click();
    await bot.getByLabel("Name").fill("release");
    await bot.getByLabel("Description").fill("how to ship");
    await bot.getByLabel("Text").fill("Tag it.");
    await bot.getByRole("button", { name: "Save" }).click();
    await bot.getByRole("button", { name: /release.*how to ship/ }).click();
    equal(await bot.getByLabel("Text").inputValue(), "Tag it.");
    await bot.getByRole("button", { name: "Cancel" }).click();
    await bot.getByRole("button", { name: "Instructions" }).click();
    await bot.getByLabel("Instructions").fill("Be kind.");
    await bot.getByRole("button", { name: "Save" }).click();
    for (const end = Date.now() + DEADLINE; (await hub.api("GET", "/bots/mate")).instructions !== "Be kind.";) assert(Date.now() < end, "the instructions were not saved");
    await bot.getByRole("button", { name: "History" }).click();
    await bot.getByText("No sessions yet").waitFor();
    await p.close();
  },

  async "bots that are made, changed and deleted elsewhere show at once"({ browser, hub }) {
    const p = await open(browser, hub);
    await p.page.getByRole("tab", { name: "Bots" }).click();
    const bot = p.page.getByRole("region", { name: "Bots" }).getByRole("button", { name: /^pilot/ });
    await hub.api("POST", "/bots", { name: "pilot", description: "reads charts" });
    await bot.getByText("reads charts").waitFor();
    await hub.api("PATCH", "/bots/pilot", { description: "knows the harbour" });
    await bot.getByText("knows the harbour").waitFor();
    await hub.api("DELETE", "/bots/pilot");
    await bot.waitFor({ state: "detached" });
    await p.close();
  },

  async "the environment of the session says what is wrong and what to type; events go back before the page"({ browser, hub }) {
    hub.write("isle/.afloat/env.toml", '[env]\nTIDE = "high"\n');
    const s = await hub.session({ working_dir: path.join(hub.project, "isle"), title: "isle" });
    await hub.turn(s.id, "what is Afloat?");
    await hub.api("POST", "/events", { type: "user.before", data: { n: 1 } });
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    await show(p, "Environment");
    const env = panel(p, "environment");
    await env.getByRole("region", { name: "Environment of this session" }).getByText("failed", { exact: true }).waitFor();
    await env.getByText("afloat env allow", { exact: true }).waitFor();
    await env.getByText("No shell runs").waitFor();
    await show(p, "Events");
    const events = panel(p, "events");
    await events.getByRole("button", { name: /user\.before/ }).click();
    await events.getByText('"type": "user.before"').waitFor();
    await events.getByLabel("Filter events").fill("no such event");
    await events.getByText("No event matches").waitFor();
    await events.getByLabel("Filter events").fill("");
    await events.getByRole("button", { name: "Log", exact: true }).click();
    await events.getByRole("list", { name: "Log" }).getByText("isle").first().waitFor();
    await p.close();
  },

  async "messages that wait are shown, and a session that waits is counted on its tab"({ browser, hub }) {
    const s = await hub.session(hub.scenario([
      { tool_calls: [{ name: "shell", input: { cmd: "until [ -e go ]; do sleep 0.05; done" } }] }, { text: "the first is done" },
      { tool_calls: [{ name: "ask_user", input: { question: "Port or starboard?", choices: ["port"] } }] }, { text: "end" }]));
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    await p.message.fill("begin");
    await p.send.click();
    await p.stop.waitFor();
    await p.message.fill("the next thing");
    await p.page.getByRole("button", { name: "Queue" }).click();
    await p.page.getByText("1 queued").waitFor();
    await p.talk.getByRole("article", { name: "You" }).filter({ hasText: "the next thing" }).getByText("queued", { exact: true }).waitFor(); // it is there at once
    hub.write("go", "");
    await p.page.getByRole("region", { name: "Question" }).waitFor();
    await p.page.getByText("1 queued").waitFor({ state: "detached" });
    await p.page.getByRole("tab", { name: "Sessions 1 need you" }).waitFor();
    await p.message.focus();
    await p.page.keyboard.press("Alt+1");
    await p.talk.getByText("end", { exact: true }).waitFor();
    await p.page.getByRole("tab", { name: "Sessions", exact: true }).waitFor();
    await p.close();
  },

  async "settings say what is wrong with the file, and each that was set leads to its line"({ browser, hub }) {
    const config = path.join(hub.home, "config.toml");
    const before = fs.readFileSync(config, "utf8");
    fs.writeFileSync(config, `${before}[limits]\nmax_steps = 77\nmax_stepz = 1\n`);
    const p = await open(browser, hub);
    await show(p, "Settings");
    const settings = panel(p, "settings");
    await settings.getByText("unknown key 'max_stepz'").waitFor();
    await settings.getByRole("button", { name: "user: open limits.max_steps" }).click();
    await p.page.locator(".cm-activeLine", { hasText: "max_steps = 77" }).waitFor();
    fs.writeFileSync(config, before);
    await p.close();
  },

  async "a message that waits is shown after the answer that is being written, which stays in one piece"({ browser, hub }) {
    const s = await hub.session(hub.scenario([{ text: "ebb flow ".repeat(160), delta_ms: 25 }, { text: "second answer" }]));
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    await p.message.fill("begin");
    await p.send.click();
    await p.talk.getByText("ebb flow").waitFor();
    await p.stop.waitFor();
    await p.message.fill("and then");
    await p.page.getByRole("button", { name: "Queue" }).click();
    await p.talk.getByText("and then").waitFor();
    const order = () => p.talk.getByRole("article").evaluateAll((all) => all.map((a) => a.textContent.slice(0, 8)));
    equal(await order(), ["begin" + (await p.talk.locator("time").first().textContent()).slice(0, 3), "ebb flow", "and then"]);
    await p.talk.getByText("second answer").waitFor();
    equal((await order()).slice(1), ["ebb flow", "and then", "second a"]);
    await p.close();
  },

  async "a session that is deleted elsewhere is left, and one that is not there says so"({ browser, hub }) {
    const s = await hub.session({ title: "Driftwood" });
    const p = await open(browser, hub);
    p.watched.allow.push(/404/);
    await at(p, hub, s.id);
    await p.page.getByRole("heading", { name: "Driftwood" }).waitFor();
    await hub.api("DELETE", `/session/${s.id}?purge=true`);
    await p.page.getByText("Driftwood was deleted").waitFor();
    await p.page.getByText("What shall we work on?").waitFor();
    await p.page.goto(`${hub.origin}/#/session/nosuch`);
    await p.talk.getByText("there is no session 'nosuch'").waitFor();
    await p.page.locator("[aria-label=Message]:disabled").waitFor();
    equal(await p.page.getByRole("heading", { name: "New session" }).count(), 0);
    await p.close();
  },

  async "the tab of the panel in front is seen whole, also when it was opened while others were on screen"({ browser, hub }) {
    const names = Array.from({ length: 12 }, (_, i) => `deck-${i}.txt`);
    for (const name of names) hub.write(name, "");
    const s = await hub.session();
    const p = await open(browser, hub, { viewport: { width: 320, height: 700 } });
    await at(p, hub, s.id);
    for (const name of names) { // at the tenth that is out of sight the number of them needs more room
      await p.page.getByRole("button", { name: "Open the sidebar" }).click();
      await p.page.getByRole("tab", { name: "Files" }).click();
      await p.page.getByRole("treeitem", { name }).click();
      await p.page.locator(".dv-active-tab", { hasText: name }).waitFor();
      await p.page.waitForFunction(() => {
        const tab = document.querySelector(".dv-active-tab");
        const box = tab.getBoundingClientRect();
        return [box.left + 2, box.right - 2].every((x) => tab.contains(document.elementFromPoint(x, box.top + box.height / 2)));
      });
      await p.page.getByRole("button", { name: "Back to the conversation" }).click();
    }
    await p.close();
  },

  async "what a form shows is what was saved: a title from elsewhere, a model that is taken out"({ browser, hub }) {
    await hub.api("POST", "/bots", { name: "purser", description: "d", instructions: "Be brief.", model: "old-model" });
    const s = await hub.session({ title: "first name" });
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    const openPanel = (name, params) => hub.api("POST", "/ui/command", { kind: "open_panel", params: { panel: name, params } });
    await openPanel("session", { key: s.id, session: s.id });
    const title = panel(p, "session").getByRole("textbox", { name: "Title" });
    await title.waitFor();
    await hub.api("PATCH", `/session/${s.id}`, { title: "second name" });
    await p.page.getByRole("heading", { name: "second name" }).waitFor();
    equal(await title.inputValue(), "second name");
    await title.focus();
    await p.message.focus();
    await openPanel("bot", { key: "purser", bot: "purser" });
    await panel(p, "bot").getByRole("button", { name: "Instructions" }).click();
    const model = panel(p, "bot").getByRole("textbox", { name: "Model" });
    equal(await model.inputValue(), "old-model");
    await model.fill("");
    await panel(p, "bot").getByRole("button", { name: "Save" }).click();
    await p.page.getByRole("status").filter({ hasText: "Saved" }).waitFor();
    equal((await hub.api("GET", "/bots/purser")).settings?.model ?? null, null, "the model:");
    equal((await hub.api("GET", `/session/${s.id}`)).title, "second name");
    await p.close();
  },

  async "an operation's form says which field cannot be read, and what to do after a refusal"({ browser, hub }) {
    const p = await open(browser, hub);
    p.watched.allow.push(/40[04]/);
    const form = async (id) => {
      await p.page.keyboard.press("Control+k");
      await p.palette.getByRole("combobox").fill(id);
      await p.palette.getByRole("option", { name: new RegExp(`^${id.replace(".", "[.]")}`) }).first().click();
      await p.palette.getByText(id.startsWith("files") ? "/files/watch" : "/mcp/servers/{name}", { exact: false }).first().waitFor();
    };
    await form("files.watch");
    await p.palette.getByLabel("dirs").fill("/tmp");
    await p.palette.getByRole("button", { name: "Run" }).click();
    await p.palette.getByText('dirs: an array is written as JSON, like ["a", "b"]').waitFor();
    await p.page.keyboard.press("Escape");
    await p.palette.waitFor({ state: "detached" });
    await form("mcp.show");
    await p.palette.getByLabel("name").fill("nobody");
    await p.palette.getByRole("button", { name: "Run" }).click();
    await p.palette.getByText("there is no MCP server 'nobody'; `afloat mcp list` lists them").waitFor();
    await p.close();
  },

  async "keys lead out of a terminal; panels maximise, and close one by one"({ browser, hub }) {
    const s = await hub.session();
    const p = await open(browser, hub);
    const { page } = p;
    await at(p, hub, s.id);
    await show(p, "Keyboard");
    await show(p, "Terminals");
    await panel(p, "terminals").getByRole("button", { name: "New terminal" }).click();
    await page.locator(".xterm-rows").getByText(/[$#]/).first().waitFor();
    const inside = () => page.evaluate(() => document.activeElement?.closest(".xterm") !== null);
    await page.waitForFunction(() => document.activeElement?.closest(".xterm") !== null);
    await page.keyboard.press("F6");
    equal(await inside(), false, "F6 leaves the terminal");
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.press("Control+k"); // the shell's own
    equal(await p.palette.count(), 0);
    await page.keyboard.press("Control+Shift+K");
    await p.palette.waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Maximise or restore" }).click();
    await page.getByRole("button", { name: "Maximise or restore" }).click();
    const { ptys } = await hub.api("GET", "/pty");
    for (const t of ptys) await hub.api("DELETE", `/pty/${t.id}`);
    await page.getByRole("button", { name: "Close this group" }).click();
    await page.locator(".dock-area").waitFor({ state: "detached" });
    await p.close();
  },

  async "each panel is free of serious findings of axe, light and dark, and fits into 320 pixels"({ browser, hub }) {
    hub.write("a.c", "int main(void) { return 0; } // c\n");
    plugin(hub, "bad.lua", "local x = = 1\n");
    plugin(hub, "good.lua", 'on_tool_call(function() log.info("x") end)\n');
    await hub.api("POST", "/reload", {});
    await hub.api("POST", "/bots", { name: "axel", description: "x", instructions: "y" });
    const s = await hub.session({ title: "axe", ...hub.scenario([{ tool_calls: [{ name: "edit_file", input: { path: "a.c", old: "0", new: "1" } }, { name: "todo", input: { items: [{ text: "one", state: "active" }] } }] }, { text: "done" }]) });
    await hub.turn(s.id, "go");
    const panels = [["plugins", {}], ["plugin", { key: "good", name: "good" }], ["plugin", { key: "bad", name: "bad" }], ["bot", { key: "axel", bot: "axel" }], ["bot", { key: "", bot: "" }], ["session", { key: s.id, session: s.id }],
      ["rewind", { key: s.id, session: s.id }], ["terminals", {}], ["environment", {}], ["events", {}], ["settings", {}], ["help", {}], ["file", { key: "a", dir: hub.project, path: "a.c" }]];
    for (const colorScheme of ["light", "dark"]) {
      const p = await open(browser, hub, { colorScheme, bypassCSP: true });
      await at(p, hub, s.id);
      for (const [name, params] of panels) {
        await hub.api("POST", "/ui/command", { kind: "open_panel", params: { panel: `afloat.${name}`, params } });
        await panel(p, name).locator("h2").last().waitFor();
        await axe(p.page, `${name} ${JSON.stringify(params)}, ${colorScheme}`, `[data-panel-id="afloat.${name}"]`, colorScheme === "dark" ? ["color-contrast"] : undefined);
      }
      await p.page.getByRole("tab", { name: "Files" }).click();
      await p.page.getByRole("treeitem", { name: "a.c" }).waitFor();
      await axe(p.page, `files, ${colorScheme}`, ".sidebar");
      if (colorScheme === "dark") { // the same panels, narrow: nothing is wider than the screen
        await p.page.setViewportSize({ width: 320, height: 640 });
        for (const [name, params] of panels) {
          await hub.api("POST", "/ui/command", { kind: "open_panel", params: { panel: `afloat.${name}`, params } });
          const wide = () => p.page.evaluate(() => [...document.querySelectorAll(".view-head, .view-body, .view-body > *")].filter((e) => e.offsetParent && e.getBoundingClientRect().right > 321 && e.getBoundingClientRect().left < 320).map((e) => `${e.className} ${Math.round(e.getBoundingClientRect().right)}`));
          for (const end = Date.now() + DEADLINE; (await wide()).length > 0 && Date.now() < end;) await p.page.waitForTimeout(20); // the dock follows the window
          equal(await wide(), [], `${name} at 320 pixels:`);
        }
        await p.page.getByRole("button", { name: "Back to the conversation" }).first().click();
        await p.message.waitFor();
      }
      await p.context.close();
    }
  },
};
