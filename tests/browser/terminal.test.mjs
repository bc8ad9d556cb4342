// Terminals in the page. A hub without them has no such tests.
import { execFileSync } from "node:child_process";
import { assert, BIN, equal, open } from "./rig.mjs";

const has = execFileSync(BIN, ["help", "--all"], { encoding: "utf8" }).includes("pty");

async function openTerminal(p) {
  await p.page.getByRole("button", { name: "Terminals" }).click();
  await p.page.locator('[data-panel-id="afloat.terminals"]').getByRole("button", { name: "New terminal" }).click();
  await p.page.locator(".xterm-rows").getByText(/[$#]/).first().waitFor();
  await p.page.waitForFunction(() => document.activeElement?.closest(".xterm") !== null); // what is typed goes there
}
const rows = (p) => p.page.locator(".xterm-rows");

export const tests = !has ? {} : {
  async "a terminal runs a shell in the session's directory, over a reload and a killed hub"({ browser, hub }) {
    hub.write("here.txt", "x");
    const s = await hub.session({ title: "deck" });
    const p = await open(browser, hub);
    p.watched.allow.push(/ERR_|WebSocket connection/);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.sessions.getByText("deck").waitFor();
    await openTerminal(p);
    await p.page.keyboard.type("ls; echo sum-$((40+2))\n");
    await rows(p).getByText("here.txt").first().waitFor();
    await rows(p).getByText("sum-42").waitFor();
    await p.page.reload(); // the screen is kept by its keeper
    await rows(p).getByText("sum-42").waitFor();
    await p.page.locator('[data-panel-id="afloat.terminal"] h2').getByText("bash").waitFor();
    const name = await p.page.locator('[data-panel-id="afloat.terminal"] h2').innerText();
    await hub.kill();
    await p.page.getByRole("alert").getByText("The hub is away").waitFor();
    await p.page.getByText("reconnecting").waitFor();
    equal(await p.page.locator('[data-panel-id="afloat.terminal"] h2').innerText(), name, "while the hub is away:");
    await hub.start();
    await p.page.getByRole("alert").getByText("The hub is away").waitFor({ state: "detached" });
    await p.page.getByText("reconnecting").waitFor({ state: "detached" });
    await p.page.locator(".xterm-helper-textarea").focus();
    await p.page.keyboard.type("echo later-$((1+1))\n");
    await rows(p).getByText("later-2").waitFor();
    const text = await rows(p).innerText();
    equal(text.split("sum-42").length, 2, "what was printed once is shown once:");
    await p.page.locator('[data-panel-id="afloat.terminal"]').getByRole("button", { name: "End" }).click();
    await p.page.locator('[data-panel-id="afloat.terminal"]').waitFor({ state: "detached" });
    const { ptys } = await hub.api("GET", "/pty");
    assert(ptys.every((t) => t.state !== "running"), JSON.stringify(ptys));
    await p.close();
  },
};
