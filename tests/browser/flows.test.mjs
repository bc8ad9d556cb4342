// What people do with the page, one flow a test.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { assert, BIN, equal, open } from "./rig.mjs";

/** Go to a session. */
async function show(p, hub, id) {
  await p.page.goto(`${hub.origin}/#/session/${id}`);
  await p.page.locator(`[data-session="${id}"]`).waitFor();
}
const say = async (p, text) => { await p.message.fill(text); await p.send.click(); };
/** Paste a picture of one dot into the message. */
const paste = async (p) => {
  await p.message.evaluate((area) => {
    const bytes = Uint8Array.from(atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="), (c) => c.charCodeAt(0));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([bytes], "dot.png", { type: "image/png" }));
    area.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  });
  await p.page.getByRole("list", { name: "Pictures" }).getByText("dot.png").waitFor();
};
const menu = async (p, label, item) => {
  await p.page.getByRole("button", { name: label }).click();
  await p.page.getByRole("menuitem", { name: item }).click();
};

export const tests = {
  async "a message begins a session, shows its tools, and is there after a reload"({ browser, hub }) {
    hub.write("notes.txt", "one\n");
    await hub.session({ title: "earlier" }); // its directory is taken for the next
    const p = await open(browser, hub);
    await p.sessions.getByText("earlier").waitFor();
    await say(p, "list the files");
    await p.talk.locator('[data-tool="list_files"][data-state="done"]').waitFor();
    await p.talk.getByText("notes.txt").first().waitFor();
    await p.sessions.getByText("list the files").waitFor();
    equal(await p.message.inputValue(), "");
    await p.page.reload();
    await p.talk.getByText("notes.txt").first().waitFor();
    equal(await p.talk.getByRole("article", { name: "You" }).count(), 1);
    await p.close();
  },

  async "afloat open says where the page begins"({ browser, hub }) {
    const bay = path.join(hub.dir, "bay");
    fs.mkdirSync(bay);
    fs.writeFileSync(path.join(bay, "shell.txt"), "s\n");
    const address = execFileSync(BIN, ["open"], { cwd: bay, env: hub.env, encoding: "utf8" }).trim();
    const p = await open(browser, hub, {}, address);
    await p.page.getByRole("button", { name: /bay$/ }).waitFor();
    await say(p, "list the files");
    await p.talk.getByText("shell.txt").first().waitFor();
    await p.close();
  },

  async "an answer streams, reasoning is folded, and Stop ends the turn"({ browser, hub }) {
    const words = Array.from({ length: 400 }, (_, i) => `word${i}`).join(" ");
    const s = await hub.session(hub.scenario([{ reasoning: "hidden thought", text: words, delta_ms: 20 }]));
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    await say(p, "go");
    await p.talk.getByText("word5").waitFor();
    equal(await p.talk.getByText("hidden thought", { exact: true }).count(), 1); // the last line peeks out
    await p.stop.click();
    await p.talk.getByText("Stopped").waitFor();
    await p.talk.getByText("Cut off here.").waitFor();
    await p.send.waitFor();
    equal(await p.talk.getByText("word399").count(), 0);
    equal(await p.page.getByText("0 in").count(), 0, "the usage of an answer that was cut off is not known:");
    await p.talk.getByRole("button", { name: /Thought/ }).click();
    await p.talk.locator(".reasoning-text").getByText("hidden thought").waitFor();
    await p.close();
  },

  async "permission is asked on a card: allowed by click, denied by key with a reason"({ browser, hub }) {
    const s = await hub.session({ permission: "ask", ...hub.scenario([
      { tool_calls: [{ name: "shell", input: { cmd: "echo allowed > a.txt" } }] }, { text: "first done" },
      { tool_calls: [{ name: "shell", input: { cmd: "echo denied > b.txt" } }] }, { text: "second done" },
      { tool_calls: [{ name: "write_file", input: { path: "c.txt", content: "c\n" } }] }, { text: "third done" },
    ]) });
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    await say(p, "one");
    const card = p.page.getByRole("region", { name: "Permission for shell" });
    await card.locator("pre").getByText("echo allowed > a.txt").waitFor();
    await card.getByText("this call only").waitFor();
    await p.sessions.getByText("permission", { exact: true }).waitFor(); // the badge
    await card.getByRole("button", { name: /Allow once/ }).click();
    await p.talk.getByText("first done").waitFor();
    equal(hub.read("a.txt"), "allowed\n");

    await say(p, "two");
    await card.getByRole("textbox", { name: "Reason for the model" }).fill("not today");
    await card.getByRole("button", { name: /Deny/ }).focus();
    await p.page.keyboard.press("d");
    await p.talk.getByText("second done").waitFor();
    await p.talk.getByText("Denied shell: not today").waitFor();
    assert(!fs.existsSync(path.join(hub.project, "b.txt")), "the denied command ran");

    await say(p, "three"); // with Alt the keys work while one types; the diff is on the card
    const file = p.page.getByRole("region", { name: "Permission for write_file" });
    await file.locator(".diff-line.add").getByText("c", { exact: true }).waitFor();
    await p.message.focus();
    await p.page.keyboard.press("Alt+1");
    await p.talk.getByText("third done").waitFor();
    equal(hub.read("c.txt"), "c\n");
    await p.close();
  },

  async "a question is a card with its choices"({ browser, hub }) {
    const s = await hub.session(hub.scenario([
      { tool_calls: [{ name: "ask_user", input: { question: "Tea or coffee?", choices: ["tea", "coffee"] } }] }, { when: "coffee", text: "noted" },
    ]));
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    await say(p, "ask me");
    const card = p.page.getByRole("region", { name: "Question" });
    await card.getByText("Tea or coffee?").waitFor();
    await p.sessions.getByText("question", { exact: true }).waitFor();
    await card.getByRole("button", { name: /coffee/ }).click();
    await p.talk.getByText("noted").waitFor();
    await p.close();
  },

  async "while a turn runs Enter steers and Alt+Enter queues"({ browser, hub }) {
    const slow = Array.from({ length: 60 }, (_, i) => `w${i}`).join(" ");
    const s = await hub.session(hub.scenario([
      { text: slow, delta_ms: 25, tool_calls: [{ name: "shell", input: { cmd: "until [ -e steered ]; do sleep 0.05; done" } }] }, { text: "steered answer" }, { text: "queued answer" },
    ]));
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    await say(p, "begin");
    await p.talk.getByText("w3").waitFor();
    await p.stop.waitFor(); // the list of sessions has heard of the turn too
    await p.message.fill("and that later");
    await p.message.press("Alt+Enter");
    await p.page.getByText("1 queued").waitFor();
    await p.message.fill("and this now");
    await Promise.all([p.page.waitForResponse(/\/steer$/), p.message.press("Enter")]);
    hub.write("steered", ""); // until here the turn runs
    await p.talk.getByText("queued answer").waitFor();
    await p.talk.getByText("steered answer").waitFor();
    const said = await p.talk.getByRole("article", { name: "You" }).locator(".user-text").allTextContents();
    equal(said.sort(), ["and that later", "and this now", "begin"]);
    await p.close();
  },

  async "an edit shows its diff, and rewind takes it back, conversation and file"({ browser, hub }) {
    hub.write("poem.txt", "roses are red\n");
    const s = await hub.session(hub.scenario([
      { tool_calls: [{ name: "edit_file", input: { path: "poem.txt", old: "red", new: "blue" } }] }, { text: "it is blue" },
    ]));
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    await say(p, "make it blue");
    await p.talk.getByText("it is blue").waitFor();
    await p.talk.locator(".diff-line.del").getByText("roses are red").waitFor();
    await p.talk.locator(".diff-line.add").getByText("roses are blue").waitFor();
    await p.talk.getByRole("article", { name: "You" }).hover();
    await p.talk.getByRole("button", { name: "Rewind to before this message" }).click();
    const panel = p.page.locator('[data-panel-id="afloat.rewind"]');
    await panel.getByText(/restore .*poem\.txt/).waitFor();
    await panel.getByRole("button", { name: "Rewind", exact: true }).click();
    await p.talk.getByText(/Rewound/).waitFor();
    await p.talk.getByText("it is blue").waitFor({ state: "detached" });
    equal(hub.read("poem.txt"), "roses are red\n");
    await p.page.reload(); // the journal tells it again
    await p.talk.getByText(/Rewound/).waitFor();
    equal(await p.talk.getByText("it is blue").count(), 0);
    await p.close();
  },

  async "a diff shows lines that look like its own heads, and counts them"({ browser, hub }) {
    hub.write("query.sql", "select 1;\n-- note\n--- a/other\nselect 2;\n");
    const s = await hub.session(hub.scenario([
      { tool_calls: [{ name: "edit_file", input: { path: "query.sql", old: "-- note\n--- a/other\n", new: "++ b/x\n@@ -1 +1 @@\ndiff --git a/y b/y\n" } }] }, { text: "edited" },
    ]));
    await hub.turn(s.id, "go");
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    const diff = p.talk.locator(".diff");
    await diff.getByText("select 2;").waitFor();
    equal(await diff.locator(".diff-head").allInnerTexts(), ["query.sql\n+3 −2"]);
    equal(await diff.locator(".diff-line.del .diff-text").allInnerTexts(), ["-- note", "--- a/other"]);
    equal(await diff.locator(".diff-line.add .diff-text").allInnerTexts(), ["++ b/x", "@@ -1 +1 @@", "diff --git a/y b/y"]);
    equal(await diff.locator(".diff-line.same .diff-text").allInnerTexts(), ["select 1;", "select 2;"]);
    await p.close();
  },

  async "a run's diff names every file: binary, moved, of another mode; a patch that is cut off says so"({ browser, hub }) {
    const repo = path.join(hub.project, "cargo");
    const git = (...args) => execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", ...args], { cwd: repo });
    hub.write("cargo/old name.txt", "one\ntwo\nthree\n");
    hub.write("cargo/tool.sh", "true\n");
    hub.write("cargo/a.txt", "first\n");
    git("init", "-q");
    git("add", ".");
    git("commit", "-q", "-m", "begin");
    hub.scenario([{ tool_calls: [{ name: "shell", input: { cmd: "git mv 'old name.txt' new.txt; chmod +x tool.sh; printf 'a\\0b' > x.bin; echo second >> a.txt" } }] }, { text: "done" }]);
    await hub.api("POST", "/bots", { name: "stevedore", description: "d", instructions: "Load.", provider: "play" });
    const run = await hub.api("POST", "/bots/stevedore/runs", { prompt: "load", working_dir: repo, iterations: 1 });
    const p = await open(browser, hub);
    await p.page.route("**/diff", async (route) => route.fulfill({ json: { ...await hub.api("GET", new URL(route.request().url()).pathname), cut: true } }));
    await hub.api("POST", "/ui/command", { kind: "open_panel", params: { panel: "run", params: { key: run.run_id, run: run.run_id } } });
    const panel = p.page.locator('[data-panel-id="afloat.run"]');
    await panel.getByText("is cut off", { exact: false }).waitFor();
    const heads = await panel.locator(".diff-head .mono").allInnerTexts();
    equal(heads.sort(), ["a.txt", "new.txt", "tool.sh", "x.bin"]);
    const file = (name) => panel.locator(".diff-file").filter({ has: p.page.locator(".diff-head .mono").getByText(name, { exact: true }) });
    equal(await file("a.txt").locator(".diff-line.same .diff-text").allInnerTexts(), ["first"]);
    equal(await file("tool.sh").locator(".diff-line.meta .diff-text").allInnerTexts(), ["old mode 100644", "new mode 100755"]);
    assert((await file("new.txt").innerText()).includes("rename from old name.txt"), "where it came from");
    assert((await file("x.bin").innerText()).includes("GIT binary patch"), "it is binary");
    equal(await panel.locator(".diff-line.same").count(), 1, "encoded bytes are shown as lines:");
    await p.close();
  },

  async "a session is renamed, forked, found and ended"({ browser, hub }) {
    const s = await hub.session();
    await hub.turn(s.id, "what is Afloat?");
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    await menu(p, "Session actions", "Rename");
    await p.page.getByRole("textbox", { name: "Title" }).fill("harbour");
    await p.page.keyboard.press("Enter");
    await p.sessions.getByText("harbour").waitFor();
    equal((await hub.api("GET", `/session/${s.id}`)).title, "harbour");
    await menu(p, "Session actions", "Fork");
    await p.page.locator(`[data-session]:not([data-session="${s.id}"])`).waitFor();
    await p.talk.locator(".user-text").getByText("what is Afloat?").waitFor();
    await p.page.getByRole("searchbox", { name: "Search sessions" }).fill("no such thing");
    await p.sessions.getByText("No session matches.").waitFor();
    await p.page.getByRole("searchbox", { name: "Search sessions" }).fill("harbour");
    await show(p, hub, s.id);
    await menu(p, "Session actions", "End");
    await p.page.getByRole("dialog").getByRole("button", { name: "End" }).click();
    await p.talk.getByText("The session has ended").waitFor();
    await p.page.waitForFunction(() => document.querySelector("[aria-label=Message]").disabled);
    await p.close();
  },

  async "the palette finds commands, sessions and each operation, with a form"({ browser, hub }) {
    const s = await hub.session({ title: "lighthouse" });
    const p = await open(browser, hub);
    await p.page.keyboard.press("Control+k");
    await p.palette.waitFor();
    await p.palette.getByRole("combobox").fill("lighthouse");
    await p.palette.getByRole("option", { name: /lighthouse/ }).first().waitFor();
    await p.page.keyboard.press("Enter");
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.page.keyboard.press("Control+k");
    const doc = await hub.api("GET", "/openapi.json");
    const ids = Object.values(doc.paths).flatMap((m) => Object.values(m)).filter((o) => !o["x-afloat-socket-only"]).map((o) => o.operationId);
    await p.palette.getByRole("option", { name: /^session\.pipeline/ }).waitFor({ state: "attached" });
    const shown = await p.palette.locator('[role="group"][aria-label="Operations"] .entry-title').allTextContents();
    equal([...shown].sort(), [...ids].sort(), "operations in the palette:");
    await p.palette.getByRole("combobox").fill("health");
    await p.palette.getByRole("option", { name: /^health/ }).click();
    await p.palette.getByRole("button", { name: "Run" }).click();
    await p.palette.getByText('"ok": true').waitFor();
    await p.page.keyboard.press("Escape");
    await p.palette.waitFor({ state: "detached" });
    await p.close();
  },

  async "files: the tree follows the disk, the editor saves and never loses an edit"({ browser, hub }) {
    hub.write("lib/deep.txt", "first\n");
    const s = await hub.session(hub.scenario([{ tool_calls: [{ name: "write_file", input: { path: "lib/new.txt", content: "n\n" } }] }, { text: "written" }]));
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    await p.page.getByRole("tab", { name: "Files" }).click();
    await p.page.getByRole("treeitem", { name: "lib", exact: true }).click();
    await p.page.getByRole("treeitem", { name: "deep.txt" }).click();
    const editor = p.page.locator('[data-panel-id="afloat.file"] .cm-content');
    await editor.getByText("first").waitFor();
    await say(p, "write it");
    await p.page.getByRole("treeitem", { name: "new.txt" }).waitFor(); // by itself
    await editor.click();
    await p.page.keyboard.press("Control+End");
    await p.page.keyboard.type("second");
    await p.page.keyboard.press("Control+s");
    await p.page.getByRole("status").getByText("Saved lib/deep.txt").waitFor();
    equal(hub.read("lib/deep.txt"), "first\nsecond");
    await p.page.keyboard.type(" mine");
    hub.write("lib/deep.txt", "theirs\n");
    await p.page.getByText("The file changed on disk while you typed.").waitFor();
    await p.page.getByRole("button", { name: "Take the disk's" }).click();
    await editor.getByText("theirs").waitFor();
    // nobody but the disk says it from here on: no tool, no focus
    hub.write("lib/deep.txt", "by another program\n");
    await editor.getByText("by another program").waitFor();
    hub.write("lib/outside.txt", "o\n");
    await p.page.getByRole("treeitem", { name: "outside.txt" }).waitFor();
    fs.rmSync(path.join(hub.project, "lib/outside.txt"));
    await p.page.getByRole("treeitem", { name: "outside.txt" }).waitFor({ state: "detached" });
    hub.write("fresh/inner.txt", "i\n");
    await p.page.getByRole("treeitem", { name: "fresh", exact: true }).click();
    await p.page.getByRole("treeitem", { name: "inner.txt" }).waitFor();
    await p.page.getByRole("button", { name: "New file" }).click();
    await p.page.getByRole("textbox", { name: "Path of the new file" }).fill("lib/made.txt");
    await p.page.keyboard.press("Enter");
    await p.page.locator(".dv-tab", { hasText: "made.txt" }).waitFor();
    equal(hub.read("lib/made.txt"), "");
    const item = p.page.getByRole("treeitem", { name: "made.txt" });
    await item.focus();
    await p.page.keyboard.press("@");
    equal(await p.message.inputValue(), "@lib/made.txt ");
    await p.message.fill("");
    const { events } = await hub.api("GET", "/events?types=tool.*&limit=1000");
    assert(!events.some((e) => !e.session && e.tool === "list_files"), "looking at files is no tool call");
    await p.close();
  },

  async "bots: create, run, look at the diff, merge"({ browser, hub }) {
    const repo = path.join(hub.dir, "repo");
    fs.mkdirSync(repo);
    const git = (...args) => execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", ...args], { cwd: repo, env: hub.env, encoding: "utf8" });
    git("init", "-q");
    fs.writeFileSync(path.join(repo, "a.txt"), "a\n");
    git("add", "-A");
    git("commit", "-qm", "one");
    const p = await open(browser, hub);
    await p.page.getByRole("tab", { name: "Bots" }).click();
    await p.page.getByRole("button", { name: "New bot" }).click();
    const panel = p.page.locator('[data-panel-id="afloat.bot"]').last();
    await panel.getByLabel("Name").fill("tidy");
    await panel.getByLabel("Instructions").fill("Be brief.");
    await panel.getByRole("button", { name: "Create" }).click();
    await panel.getByLabel("Task").fill('write "by bot" to bot.txt');
    await panel.getByLabel("Directory").fill(repo);
    await panel.getByRole("button", { name: "Run" }).click();
    const run = p.page.locator('[data-panel-id="afloat.run"]');
    await run.locator(".diff-line.add").getByText("by bot").waitFor();
    await run.getByRole("button", { name: "Merge" }).click();
    await p.page.getByRole("dialog").getByRole("button", { name: "Merge" }).click();
    await run.getByText("merged", { exact: false }).first().waitFor();
    equal(fs.readFileSync(path.join(repo, "bot.txt"), "utf8"), "by bot\n");
    await p.close();
  },

  async "plugins: a save shows at once, an error with its line, mended, disabled, undone"({ browser, hub }) {
    const file = path.join(hub.home, "plugins/live.lua");
    fs.mkdirSync(path.dirname(file), { recursive: true });
    const p = await open(browser, hub);
    fs.writeFileSync(file, 'tool{ name = "one", description = "d", run = function() return "1" end }\n');
    const row = p.plugins.locator('[data-plugin="live"]');
    await row.getByText("r1").waitFor();
    fs.writeFileSync(file, "local x = = 1\n");
    await row.getByText(/unexpected symbol/).waitFor();
    await p.page.getByRole("alert").getByText(/live.*unexpected symbol/).waitFor();
    fs.writeFileSync(file, 'tool{ name = "two", description = "d", run = function() return "2" end }\n');
    await row.getByText("r2").waitFor();
    await row.getByText(/unexpected symbol/).waitFor({ state: "detached" });
    await row.getByRole("button").click();
    const panel = p.page.locator('[data-panel-id="afloat.plugin"]');
    await panel.getByText("two").first().waitFor();
    await panel.getByRole("button", { name: "Disable" }).click();
    await row.getByText("disabled").waitFor();
    await panel.getByRole("button", { name: "Enable" }).click();
    await row.getByText("disabled").waitFor({ state: "detached" });
    await p.plugins.getByRole("button", { name: "All plugins" }).click();
    await p.page.locator('[data-panel-id="afloat.plugins"]').getByRole("button", { name: "Undo" }).click();
    await p.page.getByRole("status").getByText(/Undone/).waitFor();
    p.watched.check();
    await p.close();
  },

  async "settings say where a value comes from, events show as they happen, the layout stays"({ browser, hub }) {
    const p = await open(browser, hub);
    await p.page.getByRole("button", { name: "Settings", exact: true }).click();
    const settings = p.page.locator('[data-panel-id="afloat.settings"]');
    const listen = settings.locator("tr", { hasText: /^listen/ });
    await listen.getByText("flag").waitFor();
    await p.page.getByRole("button", { name: "Events and logs" }).click();
    await p.page.locator('[data-panel-id="afloat.events"]').getByText("Log", { exact: true }).waitFor();
    await hub.api("POST", "/events", { type: "user.test", data: { n: 1 } });
    await p.page.locator('[data-panel-id="afloat.events"]').getByText("user.test").waitFor();
    await p.page.reload();
    await p.page.locator('[data-panel-id="afloat.events"]').waitFor();
    await p.page.locator(".dv-tab", { hasText: "Settings" }).click();
    await listen.getByText("flag").waitFor();
    await p.close();
  },

  async "a picture that is pasted goes with one message, and stays when that could not be sent"({ browser, hub }) {
    const s = await hub.session(hub.scenario([{ text: "seen" }, { text: "heard" }]));
    const p = await open(browser, hub);
    p.watched.allow.push(/ERR_/);
    await show(p, hub, s.id);
    await p.page.route("**/message", (route) => route.abort(), { times: 1 }); // the hub never gets it
    await p.message.fill("look");
    await paste(p);
    await p.send.click();
    await p.page.getByRole("alert").filter({ hasText: "Not sent" }).waitFor();
    await p.page.getByRole("list", { name: "Pictures" }).getByText("dot.png").waitFor();
    await p.page.unroute("**/message");
    const sent = [];
    let go;
    const held = new Promise((done) => { go = done; });
    await p.page.route("**/message", async (route) => {
      sent.push(route.request().postDataJSON());
      await held;
      await route.continue();
    });
    await Promise.all([p.page.waitForRequest(/message$/), p.message.press("Enter")]);
    await p.message.fill("and this");
    await Promise.all([p.page.waitForRequest(/message$/), p.message.press("Enter")]);
    equal(sent.map((m) => [m.text, m.images?.length ?? 0]), [["look", 1], ["and this", 0]]);
    go();
    await p.talk.getByText("heard").waitFor();
    await p.close();
  },

  async "a first message that could not be sent waits in the session that was made for it"({ browser, hub }) {
    await hub.session({ title: "where to work" });
    const p = await open(browser, hub);
    p.watched.allow.push(/ERR_/);
    await p.page.route("**/message", (route) => route.abort(), { times: 1 });
    await p.message.fill("the very first");
    await p.send.click();
    await p.page.getByRole("alert").filter({ hasText: "Not sent" }).waitFor();
    await p.page.locator("[data-session]").waitFor();
    equal(await p.message.inputValue(), "the very first");
    await p.close();
  },

  async "a picture that is pasted goes with the message"({ browser, hub }) {
    const s = await hub.session();
    const p = await open(browser, hub);
    await show(p, hub, s.id);
    await p.message.fill("look");
    await paste(p);
    await p.send.click();
    await p.talk.getByText("1 picture").waitFor();
    await p.page.getByRole("list", { name: "Pictures" }).waitFor({ state: "detached" });
    await p.close();
  },

  async "a long conversation is virtual: ten thousand messages, few elements, a quick start"({ browser, hub }) {
    const s = await hub.session();
    await hub.turn(s.id, "what is Afloat?");
    const events = (await hub.api("GET", `/session/${s.id}/events?limit=1000`)).events;
    const p = await open(browser, hub);
    // the page reads a journal of 10,000 messages from a hub that is asked for real; only this answer is ours
    const many = Array.from({ length: 10_000 }, (_, i) => ({ ...events.find((e) => e.role === (i % 2 ? "assistant" : "user")), seq: i + 1, turn: `t${i >> 1}`, text: `message ${i} **bold**` }));
    await p.page.route(`**/session/${s.id}/events*`, (route) => {
      const after = Number(new URL(route.request().url()).searchParams.get("after") ?? 0);
      const page = many.slice(after, after + 1000);
      return route.fulfill({ json: { events: page, next: after + page.length } });
    });
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.talk.getByText("message 9999").waitFor();
    const nodes = await p.page.evaluate(() => document.querySelectorAll(".row").length);
    assert(nodes < 120, `${nodes} messages are in the page`);
    await p.talk.locator(".scroller").focus();
    await p.page.keyboard.press("Home");
    await p.talk.getByText("message 0 ", { exact: false }).first().waitFor();
    await p.close();
  },
};
