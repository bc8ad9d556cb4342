// What a person sees: the end of the conversation when it matters, words that are whole, nothing in the way, and soon.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { assert, DEADLINE, equal, open } from "./rig.mjs";

/** Ask until it is so. */
async function until(what, why = () => "") {
  for (const end = Date.now() + DEADLINE; !(await what());) {
    assert(Date.now() < end, `not in time: ${await why()}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

async function at(p, hub, id) {
  await p.page.goto(`${hub.origin}/#/session/${id}`);
  await p.page.locator(`[data-session="${id}"]`).waitFor();
}

/** What the hub answers to a request that a test holds. */
const asked = (hub, route) => { const { pathname, search } = new URL(route.request().url()); return hub.api("GET", pathname + search); };

/** Elements whose text does not fit and does not end with dots. */
const cut = (page, selector) => page.locator(selector).evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent));

/** A page with a session that asks about two calls at once. */
async function twoQuestions(browser, hub) {
  const s = await hub.session({ permission: "ask", ...hub.scenario([
    { tool_calls: [{ name: "shell", input: { cmd: "echo first" } }, { name: "shell", input: { cmd: "echo second" } }] }, { text: "both ran" },
  ]) });
  const p = await open(browser, hub);
  await at(p, hub, s.id);
  await p.message.fill("go");
  await p.send.click();
  return p;
}

export const tests = {
  async "who speaks sees the end again, and a question is named wherever one reads"({ browser, hub }) {
    const long = Array.from({ length: 60 }, (_, i) => `paragraph ${i}`).join("\n\n");
    const s = await hub.session(hub.scenario([
      { text: long }, { text: "the second answer" },
      { text: "One thing.", delay_ms: 300, tool_calls: [{ name: "ask_user", input: { question: "Which colour?", choices: ["red", "blue"] } }] }, { text: "so be it" },
    ]));
    await hub.turn(s.id, "first");
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    await p.talk.getByText("paragraph 59").waitFor();
    const away = async () => {
      await p.page.locator(".scroller").press("Home");
      await p.page.waitForFunction(() => document.querySelector(".scroller").scrollTop === 0);
    };
    await away();
    await p.message.fill("second");
    await p.send.click();
    await p.talk.getByText("the second answer").waitFor();
    await p.message.fill("third");
    await p.send.click();
    await away();
    await hub.api("POST", `/session/${s.id}/message`, { text: "waits behind it" }); // the question is not the last that was said
    await p.page.getByRole("button", { name: "To the question" }).waitFor();
    await p.page.getByText("Waiting for your answer").waitFor();
    await p.page.getByRole("button", { name: "To the question" }).click();
    await p.talk.getByRole("button", { name: /red/ }).click();
    await p.talk.getByText("so be it").waitFor();
    await p.close();
  },

  async "sessions beyond the first hundred: the one on screen has its title, one that waits is seen, search finds all"({ browser, hub }) {
    const old = await hub.session({ title: "the oldest of all", permission: "ask", ...hub.scenario([{ tool_calls: [{ name: "shell", input: { cmd: "true" } }] }, { text: "done" }]) });
    const needle = await hub.session({ title: "needle" });
    for (let i = 0; i < 105; i += 15) await Promise.all(Array.from({ length: 15 }, (_, k) => hub.session({ title: `hay ${i + k}` })));
    await hub.turn(old.id, "go"); // it waits
    const p = await open(browser, hub);
    await p.sessions.getByRole("region", { name: "Needs you" }).getByText("the oldest of all").waitFor();
    equal(await p.sessions.getByText("needle").count(), 0);
    await p.page.getByRole("searchbox", { name: "Search sessions" }).fill("needle");
    await p.sessions.getByText("needle").waitFor();
    await p.page.goto(`${hub.origin}/#/session/${needle.id}`);
    await p.page.reload();
    await p.page.getByRole("heading", { name: "needle" }).waitFor();
    await p.close();
  },

  async "keys answer one question at a time, and none from other parts of the page"({ browser, hub }) {
    const p = await twoQuestions(browser, hub);
    const cards = p.page.getByRole("region", { name: "Permission for shell" });
    await cards.first().waitFor();
    await p.page.getByRole("tab", { name: "Sessions" }).focus();
    await p.page.keyboard.press("d"); // of the tab list, not of the card
    await p.page.locator(".scroller").focus();
    await p.page.keyboard.press("1");
    await p.talk.getByText("Allowed shell").first().waitFor();
    await cards.first().waitFor(); // the other still asks
    equal(await p.talk.getByText("Denied shell").count(), 0);
    await p.page.keyboard.press("1");
    await p.talk.getByText("both ran").waitFor();
    await p.close();
  },

  async "a held key answers one question, not the ones that follow"({ browser, hub }) {
    const p = await twoQuestions(browser, hub);
    const second = p.page.getByRole("region", { name: "Permission for shell" }).filter({ hasText: "echo second" });
    await second.waitFor();
    await p.page.locator(".scroller").focus();
    await p.page.keyboard.down("1");
    await p.talk.getByText("Allowed shell").first().waitFor();
    await p.page.keyboard.down("1"); // without up between: it repeats
    await p.page.keyboard.down("1");
    await p.page.evaluate(() => fetch("/healthz")); // an answer of the repeated key would be on its way before this
    equal(await p.page.getByRole("button", { name: /Allow once/, disabled: false }).count(), 1, "questions that are open:");
    await p.page.keyboard.up("1");
    await p.page.keyboard.press("1");
    await p.talk.getByText("both ran").waitFor();
    await p.close();
  },

  async "a permission card shows all that is allowed, and hides no character"({ browser, hub }) {
    hub.write("quay/vis.txt", "red 👩‍🚀\n");
    hub.write("quay/other/a.txt", "");
    hub.write("quay/crane.lua", "return {}\n");
    const linked = path.join(hub.home, "plugins/crane.lua");
    fs.mkdirSync(path.dirname(linked), { recursive: true });
    fs.symlinkSync(path.join(hub.project, "quay/crane.lua"), linked); // a plugin of the user runs as the hub does
    await hub.api("POST", "/reload", {});
    const cmd = "echo \u202e\u200bcod.exe";
    const s = await hub.session({ permission: "ask", working_dir: path.join(hub.project, "quay"), ...hub.scenario([
      { tool_calls: [{ name: "shell", input: { cmd, cwd: "other" } }] },
      { tool_calls: [{ name: "edit_file", input: { path: "vis.txt", old: "red", new: "re\u202ed" } }] },
      { tool_calls: [{ name: "write_file", input: { path: "crane.lua", content: "return { 1 }\n" } }] }, { text: "over" },
    ]) });
    await hub.api("POST", `/session/${s.id}/message`, { text: "go" });
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    const card = (tool) => p.page.getByRole("region", { name: `Permission for ${tool}` });
    await card("shell").locator(".tool-cmd").getByText("echo \\u202e\\u200bcod.exe").waitFor();
    await card("shell").locator(".tool-args").getByText("other", { exact: true }).waitFor();
    assert(!/[\u200b\u202e]/.test(await card("shell").innerText()), "characters that nobody sees");
    await card("shell").getByRole("button", { name: /Allow once/ }).click();
    await card("edit_file").locator(".diff-line.add").getByText("re\\u202ed 👩‍🚀").waitFor();
    equal(await card("edit_file").getByText('"old"').count() + await card("edit_file").locator(".tool-args, .tool-cmd").count(), 0, "besides the diff:");
    await card("edit_file").getByRole("button", { name: /Allow once/ }).click();
    await card("write_file").getByText("outside of the sandbox").waitFor();
    await card("write_file").getByRole("button", { name: /Deny/ }).click();
    await p.talk.getByText("over", { exact: true }).waitFor();
    await p.close();
    fs.rmSync(linked);
  },

  async "a call of another tool is shown besides the change of its description; a subagent's is named as one"({ browser, hub }) {
    const s = await hub.session({ permission: "ask", ...hub.scenario([
      { tool_calls: [{ name: "task", input: { prompt: "look around" } }] }, { tool_calls: [{ name: "shell", input: { cmd: "systemctl stop x" } }] }, { text: "seen" }, { text: "over" },
    ]) });
    equal((await hub.turn(s.id, "go")).state, "waiting");
    const p = await open(browser, hub);
    await p.page.route(`**/session/${s.id}/events*`, async (route) => { // as a server's tool asks whose description changed
      const page = await asked(hub, route);
      for (const e of page.events) {
        if (e.type !== "permission.requested") continue;
        e.call = { ...e.call, tool_name: "ops__run", input: { host: "prod-db", cmd: "systemctl stop x" } };
        e.diff = "@@ -1 +1 @@\n-Reads the units.\n+Stops the units.\nthe schema of its input:\n@@ -1,2 +1,2 @@\n {\n-  \"type\": \"null\"\n+  \"type\": \"object\"\n";
      }
      await route.fulfill({ json: page });
    });
    await at(p, hub, s.id);
    const card = p.page.getByRole("region", { name: "Permission for ops__run" });
    await card.locator(".tool-cmd").getByText("systemctl stop x").waitFor();
    await card.locator(".tool-args").getByText("prod-db").waitFor();
    await card.getByText("Stops the units.").waitFor();
    await card.getByText("Reads the units.").waitFor();
    await card.getByText("the schema of its input:").waitFor();
    await card.getByText("a subagent").waitFor();
    await p.close();
  },

  async "a call id that is used again makes a card of its own"({ browser, hub }) {
    const s = await hub.session(hub.scenario([
      { tool_calls: [{ name: "shell", input: { cmd: "echo one" } }] }, { text: "step one" }, { tool_calls: [{ name: "shell", input: { cmd: "echo two" } }] }, { text: "step two" },
    ]));
    await hub.turn(s.id, "go");
    await hub.turn(s.id, "on");
    const p = await open(browser, hub);
    await p.page.route(`**/session/${s.id}/events*`, async (route) => { // some models number the calls of each answer from 1
      const page = await asked(hub, route);
      for (const e of page.events) if (e.call_id) e.call_id = "call_1";
      await route.fulfill({ json: page });
    });
    await at(p, hub, s.id);
    await p.talk.getByText("step two").waitFor();
    const rows = await p.talk.locator(".tool-subject, .md").allInnerTexts();
    equal(rows, ["echo one", "step one", "echo two", "step two"]);
    equal(await p.talk.locator('[data-tool][data-state="done"]').count(), 2, "calls that are done:");
    await p.close();
  },

  async "after any rewinds the page shows the turns that the model knows"({ browser, hub }) {
    const s = await hub.session(hub.scenario(["one", "two", "three", "four"].map((text) => ({ text: `answer ${text}` }))));
    const turns = [];
    for (const text of ["one", "two", "three"]) turns.push((await hub.turn(s.id, `say ${text}`)).turn_id);
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    const shows = async (...names) => {
      const want = names.flatMap((n) => [`say ${n}`, `answer ${n}`]);
      const now = () => p.talk.locator(".user-text, .md").allInnerTexts();
      await until(async () => JSON.stringify(await now()) === JSON.stringify(want), async () => `${await now()}, want ${want}`);
    };
    await shows("one", "two", "three");
    const back = async (to) => {
      await hub.api("POST", `/session/${s.id}/rewind`, { to, files: false });
      return (await hub.api("GET", `/session/${s.id}/events`)).events.findLast((e) => e.type === "session.rewound").checkpoint;
    };
    const first = await back(turns[2]);
    await shows("one", "two");
    await back(turns[1]);
    await shows("one");
    const third = await back(first); // what was there before the first: all
    await shows("one", "two", "three");
    await back(third);
    await shows("one");
    await back(turns[2]); // a turn that is not shown
    await shows("one", "two");
    await hub.turn(s.id, "say four");
    await shows("one", "two", "four");
    await back(turns[1]);
    await shows("one");
    await p.page.reload();
    await shows("one");
    await p.close();
  },

  async "text is written from the side that it asks for; pictures stay with their draft"({ browser, hub }) {
    const s = await hub.session(hub.scenario([{ text: "שלום עולם.\n\nHello." }]));
    const other = await hub.session();
    await hub.turn(s.id, "مرحبا");
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    const side = (text) => p.talk.getByText(text).first().evaluate((e) => getComputedStyle(e).direction);
    await p.talk.getByText("Hello.").waitFor();
    equal([await side("שלום"), await side("Hello."), await side("مرحبا")], ["rtl", "ltr", "rtl"]);
    await p.message.evaluate((area) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array([1])], "chart.png", { type: "image/png" }));
      area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await p.page.getByRole("list", { name: "Pictures" }).getByText("chart.png").waitFor();
    await at(p, hub, other.id);
    equal(await p.page.getByText("chart.png").count(), 0, "in another session:");
    await at(p, hub, s.id);
    await p.page.getByRole("list", { name: "Pictures" }).getByText("chart.png").waitFor();
    await p.close();
  },

  async "a file that is completed in the middle leaves the caret behind it"({ browser, hub }) {
    hub.write("harbour.txt", "");
    const s = await hub.session();
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    await p.message.fill("look at  and tell");
    await p.message.evaluate((a) => a.setSelectionRange(8, 8));
    await p.page.keyboard.type("@harb");
    await p.page.getByRole("option", { name: "harbour.txt" }).waitFor();
    await p.page.keyboard.press("Enter");
    await p.page.keyboard.type("first,");
    equal(await p.message.inputValue(), "look at @harbour.txt first, and tell");
    await p.close();
  },

  async "rewind offers nothing that cannot be done while a turn runs"({ browser, hub }) {
    const s = await hub.session(hub.scenario([{ text: "done" }, { text: Array(200).fill("word").join(" "), delta_ms: 50 }]));
    await hub.turn(s.id, "one");
    const p = await open(browser, hub);
    await at(p, hub, s.id);
    await p.message.fill("two");
    await p.send.click();
    await p.stop.waitFor();
    await p.page.getByRole("button", { name: "Session actions" }).click();
    await p.page.getByRole("menuitem", { name: "Rewind" }).click();
    const panel = p.page.locator('[data-panel-id="afloat.rewind"]');
    await panel.getByRole("radio").last().check();
    await panel.getByText(/a turn runs/i).waitFor();
    equal(await panel.getByRole("button", { name: "Rewind anyway" }).count(), 0);
    assert(await panel.getByRole("button", { name: "Rewind", exact: true }).isDisabled(), "Rewind can be pressed");
    await p.stop.click();
    await panel.getByRole("button", { name: "Rewind", exact: true, disabled: false }).waitFor(); // it looks again by itself
    await p.close();
  },

  async "a message of the page covers neither the title nor what can be pressed"({ browser, hub }) {
    const s = await hub.session({ title: "A title that is long enough to reach the middle of the window, and on" });
    for (const width of [320, 1280]) {
      const p = await open(browser, hub, { viewport: { width, height: 700 } });
      await at(p, hub, s.id);
      await p.message.fill("/nonsense");
      await p.message.press("Enter");
      const toast = p.page.getByRole("alert").filter({ hasText: "no command" });
      const look = async (when) => {
        const box = await toast.boundingBox();
        for (const other of [p.page.locator(".head"), p.page.locator(".composer-box"), p.page.locator(".sidebar")]) {
          const b = await other.boundingBox();
          const apart = !b || b.x + b.width <= box.x || b.x >= box.x + box.width || b.y + b.height <= box.y || b.y >= box.y + box.height;
          assert(apart, `${when} at ${width} px the message ${JSON.stringify(box)} covers ${JSON.stringify(b)}`);
        }
      };
      await toast.hover(); // it stays
      await look("online");
      p.watched.allow.push(/ERR_/);
      await p.context.setOffline(true);
      await p.page.getByRole("alert").getByText("The hub is away").waitFor();
      await look("offline");
      await p.close();
    }
  },

  async "a message of the page stays while somebody points at it, then goes"({ browser, hub }) {
    const p = await open(browser, hub);
    await p.page.clock.install();
    await p.message.fill("/nonsense");
    await p.message.press("Enter");
    const toast = p.page.getByRole("alert").filter({ hasText: "no command" });
    await toast.hover();
    await p.page.locator(".toast[data-held]").waitFor();
    await p.page.clock.runFor(20_000);
    equal(await toast.count(), 1, "pointed at:");
    await p.page.mouse.move(5, 5);
    await p.page.clock.runFor(20_000);
    await toast.waitFor({ state: "detached" });
    await p.close();
  },

  async "320 pixels: words of a table stay whole, rows end where the panel ends"({ browser, hub }) {
    const s = await hub.session(hub.scenario([{ text: "| name | size | note |\n|---|--:|---|\n| a-long-name-of-a-file.c | 12000 | should be cut into two |" }]));
    await hub.turn(s.id, "What is a question that is long enough to need more than one line?");
    const p = await open(browser, hub, { viewport: { width: 320, height: 640 } });
    await at(p, hub, s.id);
    const size = p.talk.getByRole("cell", { name: "12000" });
    await size.waitFor();
    const lines = await size.evaluate((e) => { const r = document.createRange(); r.selectNodeContents(e); return r.getClientRects().length; });
    equal(lines, 1, "a number is broken into lines:");
    await p.page.getByRole("button", { name: "Session actions" }).click();
    await p.page.getByRole("menuitem", { name: "Rewind" }).click();
    await p.page.getByRole("radio").waitFor();
    equal(await cut(p.page, ".points"), [], "cut off:");
    await hub.api("POST", "/bots", { name: "narrow", description: "d", instructions: "Be brief." });
    execFileSync("git", ["init", "-q"], { cwd: hub.project });
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "begin"], { cwd: hub.project });
    const run = await hub.api("POST", "/bots/narrow/runs", { prompt: 'write "x" to y', working_dir: hub.project, iterations: 1 });
    await p.page.getByRole("button", { name: "Back to the conversation" }).click();
    await p.page.getByRole("button", { name: "Open the sidebar" }).click();
    await p.page.getByRole("tab", { name: "Bots" }).click();
    await p.page.getByRole("button", { name: /narrow: write/ }).click();
    const merge = p.page.getByRole("button", { name: "Merge" });
    await merge.waitFor();
    assert((await merge.boundingBox()).x + (await merge.boundingBox()).width <= 320, `Merge of ${run.run_id} is cut off`);
    await p.close();
  },

  async "with the sidebar and a panel open nothing is cut off, however narrow the window"({ browser, hub }) {
    const p = await open(browser, hub, { viewport: { width: 1024, height: 700 } });
    await p.page.getByRole("button", { name: "Settings", exact: true }).click();
    await p.page.locator('[data-panel-id="afloat.settings"] h2').first().waitFor();
    for (const width of [1024, 920, 905, 1400]) {
      await p.page.setViewportSize({ width, height: 700 });
      await p.page.waitForFunction((w) => document.querySelector(".dock-area").getBoundingClientRect().right <= w, width); // it follows the window
    }
    await p.close();
  },

  async "settings keep their keys on a line where there is room"({ browser, hub }) {
    const p = await open(browser, hub, { viewport: { width: 1360, height: 850 } });
    await p.page.getByRole("button", { name: "Settings", exact: true }).click();
    const key = p.page.getByRole("cell", { name: "limits.command_processes" }).locator("code");
    await key.waitFor();
    const height = (await key.boundingBox()).height;
    assert(height < 30, `the key is ${height} px high`);
    await p.close();
  },

  async "a part of the page shows when its code is there, and waits for no timer"({ browser, hub }) {
    const p = await open(browser, hub);
    await p.page.clock.install();
    await p.page.reload();
    await p.message.waitFor();
    await p.page.clock.pauseAt(Date.now() + 60_000);
    for (const [button, panel] of [["Settings", "settings"], ["Keyboard help", "help"], ["All plugins", "plugins"]]) {
      await p.page.getByRole("button", { name: button, exact: true }).click();
      await p.page.locator(`[data-panel-id="afloat.${panel}"] h2`).first().waitFor({ state: "attached" });
    }
    await p.close();
  },

  async "a part of the page that the hub has no more says how to go on"({ browser, hub }) {
    const p = await open(browser, hub);
    p.watched.allow.push(/404/);
    await p.page.route("**/assets/chunk-*.js", (route) => route.fulfill({ status: 404 })); // names of an earlier build
    await p.message.fill("half a thought");
    await p.page.getByRole("button", { name: "Settings", exact: true }).click();
    await p.page.getByText("could not be loaded").waitFor();
    await p.page.unroute("**/assets/chunk-*.js");
    await p.page.getByRole("button", { name: "Reload page" }).click();
    await p.page.waitForFunction(() => document.querySelector("[aria-label=Message]")?.value === "half a thought");
    await p.close();
  },

  async "the page is a handful of files"({ browser, hub }) {
    const p = await open(browser, hub);
    const files = await p.page.evaluate(() => performance.getEntriesByType("resource").filter((e) => /\/assets\/.*\.js/.test(e.name)).map((e) => e.name));
    assert(files.length <= 8, `${files.length} scripts are loaded: ${files}`);
    await p.close();
  },
};
