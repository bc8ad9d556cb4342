// The file tree, the editor, the dock's tabs and what becomes of a run: what people do with files.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { assert, axe, equal, open } from "./rig.mjs";

/** A page on a session of the hub's project, with the tree on screen. */
async function tree(browser, hub, more = {}) {
  const s = await hub.session();
  const p = await open(browser, hub, more);
  await p.page.goto(`${hub.origin}/#/session/${s.id}`);
  await p.page.locator(`[data-session="${s.id}"]`).waitFor();
  await p.page.getByRole("tab", { name: "Files" }).click();
  return { ...p, item: (name) => p.page.getByRole("treeitem", { name, exact: true }), session: s };
}
const there = (hub, name) => fs.existsSync(path.join(hub.project, name));
const inField = (page) => page.waitForFunction(() => document.activeElement.matches("input"));
const rename = (p) => p.page.getByRole("textbox", { name: /^New name of/ });

export const tests = {
  async "the tree makes files and folders, renames and deletes, with keys alone"({ browser, hub }) {
    hub.write("lib/a.txt", "a\n");
    hub.write("lib/deep/b.txt", "b\n");
    const p = await tree(browser, hub);
    const { page } = p;
    p.watched.allow.push(/404 .*\/files\?dir=/); // an unfolded folder may be looked at just after it has moved
    await page.getByRole("button", { name: "New folder" }).click();
    await page.getByRole("textbox", { name: "Path of the new folder" }).fill("made/inner");
    await page.keyboard.press("Enter");
    await p.item("inner").waitFor(); // unfolded down to it
    await page.waitForFunction(() => document.activeElement.ariaLabel === "inner");
    assert(fs.statSync(path.join(hub.project, "made/inner")).isDirectory());
    await p.item("lib").focus();
    await page.keyboard.press("ArrowRight");
    await p.item("a.txt").focus();
    await page.keyboard.press("F2");
    equal(await rename(p).evaluate((i) => i.value.slice(i.selectionStart, i.selectionEnd)), "a");
    await page.keyboard.type("renamed");
    await page.keyboard.press("Enter");
    await p.item("renamed.txt").waitFor();
    await page.waitForFunction(() => document.activeElement.ariaLabel === "renamed.txt");
    equal([hub.read("lib/renamed.txt"), there(hub, "lib/a.txt")], ["a\n", false]);
    await page.keyboard.press("F2");
    await inField(page);
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.activeElement.ariaLabel === "renamed.txt");
    assert(there(hub, "lib/renamed.txt"), "Escape leaves it");
    // a folder keeps what is unfolded in it
    await p.item("deep").focus();
    await page.keyboard.press("ArrowRight");
    await p.item("b.txt").waitFor();
    await p.item("lib").focus();
    await page.keyboard.press("F2");
    await inField(page);
    await page.keyboard.type("src");
    await page.keyboard.press("Enter");
    await p.item("src").waitFor();
    await p.item("b.txt").waitFor();
    equal(hub.read("src/deep/b.txt"), "b\n");
    // deleting asks, and says what
    await p.item("src").focus();
    await page.keyboard.press("Delete");
    const ask = page.getByRole("dialog", { name: "Delete src?" });
    await ask.getByText("src is a folder. It holds 2 files and 1 folder.").waitFor();
    await page.keyboard.press("Escape");
    await ask.waitFor({ state: "detached" });
    assert(there(hub, "src/renamed.txt"), "it was only asked");
    await page.keyboard.press("Delete");
    await ask.getByRole("button", { name: "Delete" }).click();
    await p.item("src").waitFor({ state: "detached" });
    equal([there(hub, "src"), there(hub, "made")], [false, true]);
    await page.waitForFunction(() => document.activeElement.ariaLabel !== null); // the focus stays in the tree
    await p.close();
  },

  async "the tree's menu opens with a right click, and a name that is taken is refused"({ browser, hub }) {
    hub.write("one.txt", "1\n");
    hub.write("two.txt", "2\n");
    fs.symlinkSync("one.txt", path.join(hub.project, "link"));
    const p = await tree(browser, hub, { bypassCSP: true });
    p.watched.allow.push(/409/);
    const choose = async (name, what) => {
      await p.item(name).click({ button: "right" });
      await p.page.getByRole("menu", { name: `Actions for ${name}` }).waitFor();
      await axe(p.page, "the menu of a file", ".sidebar");
      await p.page.getByRole("menuitem", { name: what }).click();
    };
    await choose("one.txt", "Rename");
    await rename(p).fill("two.txt");
    await p.page.keyboard.press("Enter");
    await p.page.getByRole("alert").getByText(/two\.txt' already exists/).waitFor();
    equal([hub.read("one.txt"), hub.read("two.txt")], ["1\n", "2\n"]);
    await choose("one.txt", "New file here");
    await p.page.getByRole("textbox", { name: "Path of the new file" }).fill("three.txt");
    await p.page.keyboard.press("Enter");
    await p.item("three.txt").waitFor();
    equal(hub.read("three.txt"), "");
    await choose("link", "Delete");
    await p.page.getByRole("dialog").getByText("link is a link.").waitFor();
    await p.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await p.item("link").waitFor({ state: "detached" });
    equal([hub.read("one.txt"), there(hub, "link")], ["1\n", false], "the link goes, not its target");
    await p.close();
  },

  async "an editor follows a rename with what was typed, and a deleted file can be saved again"({ browser, hub }) {
    hub.write("draft.txt", "first\n");
    const p = await tree(browser, hub);
    const { page } = p;
    p.watched.allow.push(/404/);
    await p.item("draft.txt").click();
    const panel = page.locator('[data-panel-id="afloat.file"]');
    await panel.getByText("first").waitFor();
    await panel.locator(".cm-content").click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("typed");
    await p.item("draft.txt").focus();
    await page.keyboard.press("F2");
    await rename(p).fill("final.md");
    await page.keyboard.press("Enter");
    await page.locator(".dv-tab", { hasText: "● final.md" }).waitFor();
    await panel.getByText("typed").waitFor();
    await p.item("final.md").click();
    equal(await panel.count(), 1, "the tree finds the editor by its new name;");
    await panel.locator(".cm-content").click();
    await page.keyboard.press("Control+s");
    await page.getByRole("status").getByText("Saved final.md").waitFor();
    equal([hub.read("final.md"), there(hub, "draft.txt")], ["first\ntyped", false]);
    hub.write("draft.txt", "another\n"); // the old name is free for another editor
    await p.item("draft.txt").click();
    await page.locator(".dv-tab", { hasText: "draft.txt" }).waitFor();
    await page.locator(".dv-tab", { hasText: "final.md" }).click();
    await p.item("final.md").focus();
    await page.keyboard.press("Delete");
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("The file is gone from the disk.").waitFor();
    await page.locator('[data-panel-id="afloat.file"]', { hasText: "final.md" }).getByRole("button", { name: "Save" }).click();
    await page.getByText("The file is gone from the disk.").waitFor({ state: "detached" });
    equal(hub.read("final.md"), "first\ntyped");
    await p.close();
  },

  async "a save changes what was typed and no line end besides"({ browser, hub }) {
    const all = { "dos.txt": ["one\r\ntwo\r\n", "one\r\ntwo\r\nmore\r\n"], "mixed.txt": ["one\r\ntwo\n", "one\r\ntwo\nmore\n"], "unix.txt": ["one\ntwo", "one\ntwomore\n"] };
    for (const [name, [before]] of Object.entries(all)) hub.write(name, before);
    const p = await tree(browser, hub);
    const { page } = p;
    for (const [name, [, after]] of Object.entries(all)) {
      await p.item(name).click();
      const text = page.getByRole("textbox", { name, exact: true });
      await text.getByText("two").waitFor();
      await text.click();
      await page.keyboard.press("Control+End");
      await page.keyboard.type("more");
      await page.keyboard.press("Enter");
      await page.keyboard.press("Control+s");
      await page.getByRole("status").getByText(`Saved ${name}`).waitFor();
      equal(hub.read(name), after, name);
    }
    hub.write("dos.txt", "now\nof two\r\nkinds\n"); // on the disk, while it is open
    await page.locator(".dv-tab", { hasText: "dos.txt" }).click();
    const text = page.getByRole("textbox", { name: "dos.txt", exact: true });
    await text.getByText("kinds").waitFor();
    await text.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("end");
    await page.getByRole("button", { name: "Save" }).and(page.locator(":visible")).click();
    await page.locator(".dv-tab", { hasText: "●" }).waitFor({ state: "detached" });
    equal(hub.read("dos.txt"), "now\nof two\r\nkinds\nend");
    await p.close();
  },

  async "undoing ends at what the file held, and a save writes over nobody's work"({ browser, hub }) {
    hub.write("log.txt", "first\n");
    const p = await tree(browser, hub);
    const { page } = p;
    p.watched.allow.push(/409/);
    await p.item("log.txt").click();
    const panel = page.locator('[data-panel-id="afloat.file"]');
    const type = async (text) => {
      await panel.locator(".cm-content").click();
      await page.keyboard.press("Control+End");
      await page.keyboard.type(text);
    };
    await panel.getByText("first").waitFor();
    await panel.locator(".cm-content").click();
    await page.keyboard.press("Control+z");
    equal(await panel.locator(".cm-line").first().textContent(), "first", "after Ctrl+Z:");
    await type("mine");
    hub.write("log.txt", "by the agent\n");
    await page.getByText("changed on disk while you typed").waitFor();
    for (let i = 0; i < 2; i++) { // a second try saves no more than the first
      await panel.locator(".cm-content").click();
      await Promise.all([page.waitForResponse((r) => r.request().method() === "GET" && r.url().includes("/files/text")), page.keyboard.press("Control+s")]);
      equal(hub.read("log.txt"), "by the agent\n");
    }
    await panel.getByRole("button", { name: "Keep mine" }).click();
    await panel.getByRole("button", { name: "Save" }).click();
    await page.getByRole("status").getByText("Saved log.txt").waitFor();
    equal(hub.read("log.txt"), "first\nmine");
    await p.close();
  },

  async "what is typed while a save is under way is not taken for saved"({ browser, hub }) {
    hub.write("held.txt", "one");
    const p = await tree(browser, hub);
    const { page } = p;
    await p.item("held.txt").click();
    const panel = page.locator('[data-panel-id="afloat.file"]');
    await panel.getByText("one").waitFor();
    await panel.locator(".cm-content").click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type(" two");
    let go;
    const held = new Promise((done) => { go = done; });
    await page.route("**/files/text", async (route) => {
      if (route.request().method() === "PUT") await held;
      await route.continue();
    });
    await Promise.all([page.waitForRequest((r) => r.method() === "PUT"), page.keyboard.press("Control+s")]);
    await page.keyboard.type(" three");
    go();
    await page.getByRole("status").getByText("Saved held.txt").waitFor();
    equal(hub.read("held.txt"), "one two");
    await page.locator(".dv-tab", { hasText: "● held.txt" }).waitFor();
    await panel.getByRole("button", { name: "Save" }).click();
    await page.locator(".dv-tab", { hasText: "●" }).waitFor({ state: "detached" });
    equal(hub.read("held.txt"), "one two three");
    await p.close();
  },

  async "an editor follows the directory that it was opened in"({ browser, hub }) {
    hub.write("alpha/note.txt", "inside\n");
    const p = await tree(browser, hub);
    const { page } = p;
    const before = path.join(hub.project, "alpha/note.txt");
    await hub.api("POST", "/ui/command", { kind: "open_file", params: { path: before } });
    const panel = page.locator('[data-panel-id="afloat.file"]');
    await panel.getByText("inside").waitFor();
    await p.item("alpha").focus();
    await page.keyboard.press("F2");
    await rename(p).fill("b");
    await page.keyboard.press("Enter");
    await panel.locator(`h2[title="${path.join(hub.project, "b/note.txt")}"]`).waitFor();
    equal(await panel.getByText("gone from the disk").count(), 0);
    await panel.locator(".cm-content").click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("more");
    await page.keyboard.press("Control+s");
    await page.getByRole("status").getByText("Saved note.txt").waitFor();
    equal([hub.read("b/note.txt"), there(hub, "alpha")], ["inside\nmore", false]);
    await p.close();
  },

  async "a file that cannot be shown cannot be written over"({ browser, hub }) {
    const bytes = Buffer.from([0, 255, 1]);
    fs.writeFileSync(path.join(hub.project, "blob.bin"), bytes);
    const p = await tree(browser, hub);
    p.watched.allow.push(/415/);
    await p.item("blob.bin").click();
    await p.page.getByText("is not text").waitFor();
    equal(await p.page.getByRole("button", { name: "Save" }).count(), 0);
    equal(await p.page.locator(".cm-content").and(p.page.locator(":visible")).count(), 0, "nothing to type in;");
    await p.page.keyboard.press("Control+s");
    equal(fs.readFileSync(path.join(hub.project, "blob.bin")).equals(bytes), true);
    await p.close();
  },

  async "files are found however many others there are, and made ones do not stand before them"({ browser, hub }) {
    for (let i = 0; i < 2500; i++) hub.write(`assets/icon${i}.svg`, "");
    hub.write("node_modules/zebra-left-pad/index.js", "");
    hub.write("src/zebra.c", "");
    const p = await tree(browser, hub);
    await p.message.pressSequentially("see @zebra");
    await p.page.getByRole("option", { name: "src/zebra.c" }).waitFor();
    equal(await p.page.getByRole("option").filter({ hasText: "node_modules" }).count(), 0);
    await p.page.keyboard.press("Control+k");
    await p.palette.getByRole("combobox").fill("zebra.c");
    await p.palette.getByRole("option", { name: "src/zebra.c" }).waitFor();
    await p.close();
  },

  async "Compare shows what was typed beside what the file holds"({ browser, hub }) {
    hub.write("tide.txt", "low\nhigh\n");
    const p = await tree(browser, hub);
    const { page } = p;
    await p.item("tide.txt").click();
    const panel = page.locator('[data-panel-id="afloat.file"]');
    await panel.getByText("high").waitFor();
    await panel.locator(".cm-line", { hasText: "high" }).click();
    await page.keyboard.press("Home");
    await page.keyboard.press("Shift+End");
    await page.keyboard.type("ebb");
    await panel.getByRole("button", { name: "Compare" }).click();
    await panel.locator(".cm-deletedChunk").getByText("high").waitFor();
    await panel.locator(".cm-changedLine", { hasText: "ebb" }).waitFor();
    await panel.getByRole("button", { name: "Compare" }).click();
    await panel.locator(".cm-deletedChunk").waitFor({ state: "detached" });
    await panel.getByRole("button", { name: "Compare" }).click();
    await panel.locator(".cm-deletedChunk").waitFor();
    await panel.getByRole("button", { name: "Save" }).click();
    await page.getByRole("status").getByText("Saved tide.txt").waitFor();
    await panel.locator(".cm-deletedChunk").waitFor({ state: "detached" }); // nothing differs any more
    equal(hub.read("tide.txt"), "low\nebb\n");
    await p.close();
  },

  async "tabs of the dock are dragged to another place and into a split, and stay there"({ browser, hub }) {
    for (const name of ["port", "bow", "stern"]) hub.write(`${name}.txt`, `${name} text\n`);
    const p = await tree(browser, hub);
    const { page } = p;
    for (const name of ["port", "bow", "stern"]) {
      await p.item(`${name}.txt`).click();
      await page.locator(".dv-tab", { hasText: `${name}.txt` }).waitFor();
    }
    const tab = (name) => page.locator(".dv-tab", { hasText: `${name}.txt` });
    const order = () => page.locator(".dv-tab").allTextContents().then((all) => all.map((t) => t.replace(".txt", "")));
    const drag = async (from, to, where) => { // by hand: the steps that a mouse makes
      const [a, b] = [await from.boundingBox(), await to.boundingBox()];
      await page.mouse.move(a.x + a.width / 3, a.y + a.height / 2);
      await page.mouse.down();
      const [x, y] = [b.x + b.width * where[0], b.y + b.height * where[1]];
      await page.mouse.move(x - 8, y, { steps: 6 });
      await page.mouse.move(x, y, { steps: 3 });
      await page.mouse.up();
    };
    equal(await order(), ["port", "bow", "stern"]);
    const content = page.locator('[data-panel-id="afloat.file"]:visible .cm-content');
    await content.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("typed");
    await drag(page.locator(".dv-tab", { hasText: "stern.txt" }), tab("port"), [0.2, 0.5]);
    await page.waitForFunction(() => document.querySelector(".dv-tab").textContent.includes("stern"));
    await drag(tab("bow"), page.locator(".dock-root"), [0.5, 0.92]);
    await page.waitForFunction(() => document.querySelectorAll(".dv-groupview").length === 2);
    const boxes = async () => [await tab("stern").boundingBox(), await tab("bow").boundingBox()];
    let [top, low] = await boxes();
    assert(low.y > top.y + 100, "the tab is in a group below");
    await tab("stern").click();
    await page.locator('[data-panel-id="afloat.file"]:visible').getByText("typed").waitFor(); // moved, not made anew
    await page.getByText("bow text").waitFor();
    await page.reload();
    await tab("bow").waitFor();
    await page.waitForFunction(() => document.querySelectorAll(".dv-groupview").length === 2);
    [top, low] = await boxes();
    assert(low.y > top.y + 100, "and is there again after a reload");
    await page.getByRole("button", { name: "Maximise or restore" }).first().click();
    await tab("bow").waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Maximise or restore" }).first().click();
    await tab("bow").waitFor();
    await p.close();
  },

  async "a run is applied to the working tree, another is discarded"({ browser, hub }) {
    const repo = path.join(hub.dir, "repo");
    fs.mkdirSync(repo);
    const git = (...args) => execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", ...args], { cwd: repo, env: hub.env, encoding: "utf8" });
    git("init", "-q");
    fs.writeFileSync(path.join(repo, "a.txt"), "a\n");
    git("add", "-A");
    git("commit", "-qm", "one");
    await hub.api("POST", "/bots", { name: "hand", instructions: "Be brief." });
    const run = async (file) => (await hub.api("POST", "/bots/hand/runs", { prompt: `write "by bot" to ${file}`, working_dir: repo })).run_id;
    const p = await open(browser, hub);
    const decide = async (id, file, button, outcome) => {
      await p.page.getByRole("tab", { name: "Bots" }).click();
      await p.page.getByRole("button", { name: new RegExp(`to ${file}`) }).click();
      const panel = p.page.locator('[data-panel-id="afloat.run"]:visible');
      await panel.locator(".diff-line.add").getByText("by bot").waitFor();
      await panel.getByRole("button", { name: button }).click();
      await p.page.getByRole("dialog").getByRole("button", { name: button }).click();
      await panel.locator(".facts").getByText(outcome).waitFor();
      const row = await hub.api("GET", `/runs/${id}`);
      assert(row[`${outcome}_at`], JSON.stringify(row));
      return panel;
    };
    const kept = await run("kept.txt");
    const panel = await decide(kept, "kept.txt", "Apply", "applied");
    equal(fs.readFileSync(path.join(repo, "kept.txt"), "utf8"), "by bot\n");
    equal(git("log", "--oneline").trim().split("\n").length, 1, "applied, not committed;");
    equal(await panel.getByRole("button", { name: "Apply" }).count(), 0, "what is applied is not offered again;");
    const dropped = await run("dropped.txt");
    const other = await decide(dropped, "dropped.txt", "Discard", "discarded");
    assert(!fs.existsSync(path.join(repo, "dropped.txt")));
    for (const name of ["Apply", "Merge", "Discard"]) equal(await other.getByRole("button", { name }).count(), 0, `${name} of a discarded run;`);
    await p.close();
  },
};
