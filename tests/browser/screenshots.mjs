// Pictures of the main views, light and dark: node screenshots.mjs [DIRECTORY]
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Hub, launch, open, root } from "./rig.mjs";

const out = path.resolve(process.argv[2] ?? path.join(root, "build/screenshots"));
fs.mkdirSync(out, { recursive: true });

/** A hub with something to look at. */
async function scene() {
  const hub = new Hub();
  hub.project = path.join(hub.dir, "work/greet");
  const main = '#include <stdio.h>\n\n// Say hello to the world.\nint main(void)\n{\n    printf("hello\\n");\n    return 0;\n}\n';
  hub.write("src/greet.c", main);
  hub.write("Makefile", "greet: src/greet.c\n\tcc -o $@ $<\n");
  hub.write("README.md", "# Greet\n\nSays hello.\n");
  const git = (...a) => execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", ...a], { cwd: hub.project, env: hub.env });
  git("init", "-q");
  git("add", "-A");
  git("commit", "-qm", "begin");
  fs.mkdirSync(path.join(hub.home, "plugins"));
  fs.writeFileSync(path.join(hub.home, "plugins/audit.lua"), 'on("on_tool_call", function(ctx, call) log.info("tool " .. call.tool_name) end)\n');
  fs.writeFileSync(path.join(hub.home, "plugins/deploy.lua"), 'tool{ name = "deploy", description = "Ship it", run = function() return "ok" end }\n');
  fs.writeFileSync(path.join(hub.home, "plugins/notify.lua"), "local x = = 1\n");
  await hub.start();
  const scenario = hub.scenario([
    { reasoning: "The greeting is in src/greet.c. I read it first, then change one string.", text: "I will look at the greeting and make it polite.", tool_calls: [{ name: "read_file", input: { path: "src/greet.c" } }] },
    { tool_calls: [{ name: "edit_file", input: { path: "src/greet.c", old: '"hello\\n"', new: '"Good morning, world.\\n"' } }] },
    { text: "The program now says **Good morning, world.** The change is one line:\n\n```c\nprintf(\"Good morning, world.\\n\"); // was \"hello\"\n```\n\n| file | changed |\n|---|--:|\n| `src/greet.c` | 1 line |\n\nShall I compile it and run it?" },
    { text: "I compile it in the sandbox.", tool_calls: [{ name: "shell", input: { cmd: "make greet && ./greet" } }] },
    { text: "It prints `Good morning, world.`" },
  ]);
  const s = await hub.session({ title: "Polite greeting", ...scenario });
  await hub.turn(s.id, "Make the greeting in src/greet.c more polite.");
  await hub.api("PATCH", `/session/${s.id}`, { permission: "ask" });
  await hub.api("POST", "/bots", { name: "tidy", description: "Keeps the tree tidy", instructions: "Be brief." });
  const { run_id } = await hub.api("POST", "/bots/tidy/runs", { prompt: 'write "build/" to .gitignore', working_dir: hub.project, iterations: 1 });
  while ((await hub.api("GET", `/runs/${run_id}`)).state === "running") await new Promise((done) => setTimeout(done, 50)); // its end is told on the page
  await hub.session({ title: "Why is the build slow?" });
  await hub.session({ title: "Release notes for 0.2" });
  return { hub, id: s.id };
}

const browser = await launch();
for (const look of ["light", "dark"]) {
  const { hub, id } = await scene();
  const p = await open(browser, hub, { colorScheme: look, viewport: { width: 1360, height: 850 } });
  const { page } = p;
  const shot = async (name) => { await page.waitForTimeout(350); await page.screenshot({ path: path.join(out, `${name}-${look}.png`) }); };
  const panel = (name) => page.locator(`[data-panel-id="afloat.${name}"] h2`).first().waitFor();
  await shot("welcome");
  await page.goto(`${hub.origin}/#/session/${id}`);
  await p.talk.getByText("Shall I compile").waitFor();
  await shot("conversation");
  await p.message.fill("Yes, please");
  await p.send.click();
  await page.getByRole("region", { name: "Permission for shell" }).waitFor();
  await shot("permission");
  await page.keyboard.press("Control+k");
  await p.palette.getByRole("option").first().waitFor();
  await shot("palette");
  await page.keyboard.press("Escape");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("treeitem", { name: "src", exact: true }).click();
  await page.getByRole("treeitem", { name: "greet.c" }).click();
  await page.locator(".cm-content").getByText("Good morning").waitFor();
  await shot("editor");
  await page.getByRole("tab", { name: "Bots" }).click();
  await page.getByRole("button", { name: /tidy: write/ }).click();
  await page.locator(".diff-line.add").last().waitFor();
  await shot("run");
  await page.getByRole("button", { name: "All plugins" }).click();
  await panel("plugins");
  await shot("plugins");
  await page.getByRole("tab", { name: "Sessions" }).click();
  await page.getByRole("button", { name: "Session actions" }).click();
  await page.getByRole("menuitem", { name: "Rewind" }).click();
  await panel("rewind");
  await shot("rewind");
  await page.getByRole("button", { name: "Events and logs" }).click();
  await panel("events");
  await shot("events");
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  await panel("settings");
  await shot("settings");
  await page.setViewportSize({ width: 320, height: 640 });
  await page.getByRole("button", { name: "Back to the conversation" }).click();
  await shot("narrow");
  await p.context.close();
  await hub.stop();
}
await browser.close();
console.log(`pictures are in ${out}`);
