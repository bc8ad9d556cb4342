// The hub is killed under an open page, and comes back.
import { assert, equal, open } from "./rig.mjs";

export const tests = {
  async "a killed hub: a banner, then everything goes on, nothing lost and nothing doubled"({ browser, hub }) {
    const words = Array.from({ length: 80 }, (_, i) => `part${i}.`).join(" ");
    const s = await hub.session(hub.scenario([
      { text: "before the kill" }, { text: words, delta_ms: 60 },
    ]));
    const p = await open(browser, hub);
    p.watched.allow.push(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_ABORTED|503/);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.message.fill("one");
    await p.send.click();
    await p.talk.getByText("before the kill").waitFor();
    await p.page.getByRole("tab", { name: "Files" }).click();
    hub.write("before.txt", "");
    await p.page.getByRole("treeitem", { name: "before.txt" }).waitFor();
    await p.message.fill("two");
    await p.send.click();
    await p.talk.getByText("part5.").waitFor();
    await p.message.fill("a draft");
    await hub.kill(); // in the middle of the answer
    await p.page.getByRole("alert").getByText("The hub is away").waitFor();
    await p.talk.getByText("before the kill").waitFor(); // what was there stays
    await hub.start();
    await p.page.getByRole("alert").getByText("The hub is away").waitFor({ state: "detached" });
    equal(await p.message.inputValue(), "a draft");
    hub.write("after.txt", ""); // the new hub watches what is on screen
    await p.page.getByRole("treeitem", { name: "after.txt" }).waitFor();
    await p.send.waitFor(); // the killed turn has ended
    await p.message.fill("three");
    await p.send.click();
    await p.talk.getByText("part79.").waitFor(); // the request that was cut off is made again
    await p.send.waitFor();

    const journal = [];
    for (let after = 0; ;) {
      const page = await hub.api("GET", `/session/${s.id}/events?after=${after}&limit=1000`);
      if (page.events.length === 0) break;
      journal.push(...page.events);
      after = page.next;
    }
    const said = journal.filter((e) => e.type === "message.completed" && e.role === "user").map((e) => e.text);
    await p.page.waitForFunction((n) => document.querySelectorAll(".user-text").length === n, said.length);
    equal(await p.talk.locator(".user-text").allTextContents(), said, "messages:");
    equal(said, ["one", "two", "three"]);
    await p.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))); // the conversation is drawn once per frame
    const live = await p.talk.innerText();
    await p.page.reload();
    await p.talk.locator(".user-text").getByText("three").waitFor();
    await p.page.waitForFunction((n) => document.querySelectorAll(".user-text").length === n, said.length);
    await p.talk.getByText("part79.").waitFor();
    equal(await p.talk.innerText(), live, "what was seen live and what the journal tells differ:");
    assert(!live.includes("part5. part5."), "a piece was doubled");
    await p.close();
  },

  async "a message whose answer was lost is neither lost nor said twice"({ browser, hub }) {
    const s = await hub.session(hub.scenario([{ text: "heard once" }]));
    const p = await open(browser, hub);
    p.watched.allow.push(/ERR_/);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.page.route("**/message", async (route) => { // the hub has it, and its answer never comes
      await hub.api("POST", `/session/${s.id}/message`, route.request().postDataJSON());
      await route.abort();
    }, { times: 1 });
    let go;
    const seen = new Promise((done) => { go = done; });
    await p.page.route(`**/session/${s.id}/events*`, async (route) => { await seen; await route.continue(); }); // where it sees that it arrived
    await p.message.fill("only once");
    await Promise.all([p.page.waitForEvent("requestfailed", (r) => r.url().endsWith("/message")), p.send.click()]);
    await p.page.getByRole("alert").filter({ hasText: "Not sent" }).waitFor();
    equal(await p.message.inputValue(), "only once");
    go();
    await p.talk.getByText("heard once").waitFor();
    await p.page.waitForFunction(() => document.querySelector("[aria-label=Message]").value === "");
    await p.page.getByRole("alert").filter({ hasText: "Not sent" }).waitFor({ state: "detached" });
    await p.page.route("**/message", (route) => route.abort(), { times: 1 }); // the hub never gets it
    await p.message.fill("not yet");
    await p.send.click();
    await p.page.getByRole("alert").filter({ hasText: "Not sent" }).waitFor();
    equal(await p.message.inputValue(), "not yet");
    equal(await p.talk.getByRole("article", { name: "You" }).count(), 1);
    await p.close();
  },

  async "two pages: one's draft does not take the other's away"({ browser, hub }) {
    const [a, b] = [await hub.session({ title: "first" }), await hub.session({ title: "second" })];
    const p = await open(browser, hub);
    await p.page.goto(`${hub.origin}/#/session/${a.id}`);
    await p.page.locator(`[data-session="${a.id}"]`).waitFor();
    const other = await p.context.newPage();
    await other.goto(`${hub.origin}/#/session/${b.id}`);
    const message = other.getByRole("textbox", { name: "Message" });
    await other.locator(`[data-session="${b.id}"]`).waitFor();
    await p.message.fill("written here");
    await message.fill("written there");
    await p.message.fill("written here too");
    await other.waitForFunction(() => ["here too", "written there"].every((t) => localStorage.getItem("afloat.drafts")?.includes(t)));
    await other.reload();
    await other.waitForFunction(() => document.querySelector("[aria-label=Message]")?.value === "written there");
    await p.close();
  },

  async "changes while the page was cut off are there when it is back"({ browser, hub }) {
    const s = await hub.session({ title: "offshore" });
    const p = await open(browser, hub);
    p.watched.allow.push(/ERR_/);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.context.setOffline(true);
    await p.page.getByRole("alert").getByText("The hub is away").waitFor();
    await hub.turn(s.id, "what is Afloat?");
    await hub.session({ title: "made meanwhile" });
    equal(await p.talk.getByRole("article", { name: "You" }).count(), 0);
    await p.context.setOffline(false);
    await p.talk.locator(".user-text").getByText("what is Afloat?").waitFor();
    await p.sessions.getByText("made meanwhile").waitFor();
    equal(await p.talk.getByRole("article", { name: "You" }).count(), 1);
    await p.close();
  },

  async "what could not be read while the page was cut off is read when it is back"({ browser, hub }) {
    const [s, other] = [await hub.session({ title: "near" }), await hub.session({ title: "far", ...hub.scenario([{ text: "from afar" }]) })];
    await hub.turn(other.id, "who is there?");
    const p = await open(browser, hub);
    p.watched.allow.push(/ERR_/);
    await p.page.goto(`${hub.origin}/#/session/${s.id}`);
    await p.page.locator(`[data-session="${s.id}"]`).waitFor();
    await p.sessions.getByText("far").waitFor();
    await hub.api("POST", "/ui/command", { kind: "notify", params: { text: "heard" } }); // so it goes on from here, without a gap
    await p.page.getByRole("status").filter({ hasText: "heard" }).waitFor();
    await p.page.getByRole("button", { name: "Events and logs" }).click(); // the program of this and the next panel is there
    await p.page.locator('[data-panel-id="afloat.events"]').waitFor();
    await p.context.setOffline(true);
    await p.page.getByRole("alert").getByText("The hub is away").waitFor();
    await p.sessions.getByText("far").click();
    await p.talk.getByText("could not be read").waitFor();
    await p.page.getByRole("button", { name: "Environment", exact: true }).click();
    const panel = p.page.locator('[data-panel-id="afloat.environment"]');
    await panel.getByRole("alert").waitFor();
    await p.context.setOffline(false);
    await p.talk.getByText("from afar").waitFor();
    await panel.getByRole("alert").waitFor({ state: "detached" });
    await p.close();
  },

  async "a page of another build offers to be loaded again, once the hub is back"({ browser, hub }) {
    const p = await open(browser, hub);
    p.watched.allow.push(/ERR_|503/);
    let newer = false;
    await p.page.route(`${hub.origin}/`, (route) => (newer ? route.fulfill({ contentType: "text/html", body: '<script type="module" src="/assets/main-NEWER.js"></script>' }) : route.continue()));
    const compared = p.page.waitForResponse(`${hub.origin}/`);
    await hub.kill();
    await p.page.getByRole("alert").getByText("The hub is away").waitFor();
    await hub.start();
    await p.page.getByRole("alert").getByText("The hub is away").waitFor({ state: "detached" });
    await (await compared).finished();
    await hub.kill();
    await p.page.getByRole("alert").getByText("The hub is away").waitFor();
    newer = true;
    equal(await p.page.getByText("Afloat was upgraded").count(), 0, "the first time it was the same:");
    await hub.start();
    await p.page.getByText("Afloat was upgraded").waitFor();
    await p.close();
  },

  async "a page whose token was replaced says how to get in again"({ browser, hub }) {
    const p = await open(browser, hub);
    p.watched.allow.push(/401|ERR_/);
    await hub.api("POST", "/token/rotate", {});
    await p.page.getByRole("alert").getByText("afloat open").waitFor();
    await p.close();
  },
};
