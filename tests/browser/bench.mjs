// Figures of the page, for bench/web.py: one JSON line. Times are in milliseconds, of a warm browser.
import { Hub, launch, open } from "./rig.mjs";

const rounds = Number(process.argv[2] ?? 5);
const median = (all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)];
const browser = await launch();
const hub = new Hub();
await hub.start();

/** From navigation to the first paint with content, nothing cached. */
const paints = [];
for (let i = 0; i < rounds; i++) {
  const p = await open(browser, hub);
  paints.push(await p.page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity));
  await p.context.close();
}

/** Frames while a conversation of 10,000 messages is scrolled, and the delay of a key while an answer streams. */
const words = Array.from({ length: 2000 }, (_, i) => `word${i}`).join(" ");
const s = await hub.session(hub.scenario([{ text: words, delta_ms: 4 }]));
const p = await open(browser, hub);
const many = Array.from({ length: 10_000 }, (_, i) => ({
  seq: i + 1, ts: new Date().toISOString(), type: "message.completed", session: "x", turn: `t${i >> 1}`, role: i % 2 ? "assistant" : "user", text: `message ${i} **bold** \`code\``,
}));
await p.page.route("**/session/big/events*", (route) => {
  const after = Number(new URL(route.request().url()).searchParams.get("after") ?? 0);
  return route.fulfill({ json: { events: many.slice(after, after + 1000), next: after + 1000 } });
});
await p.page.goto(`${hub.origin}/#/session/big`);
await p.talk.getByText("message 9999").waitFor();
const frame = await p.page.evaluate(() => new Promise((done) => {
  const el = document.querySelector(".scroller");
  const times = [];
  let last = performance.now();
  const step = (now) => {
    times.push(now - last);
    last = now;
    el.scrollTop -= 120;
    if (times.length < 120) requestAnimationFrame(step);
    else done(times.slice(5).sort((a, b) => a - b)[Math.floor((times.length - 5) * 0.95)]);
  };
  requestAnimationFrame(step);
}));
await p.page.unroute("**/session/big/events*");
await p.page.goto(`${hub.origin}/#/session/${s.id}`);
await p.page.locator(`[data-session="${s.id}"]`).waitFor();
await p.message.fill("go");
await p.send.click();
await p.talk.getByText("word20").waitFor();
const keys = [];
for (let i = 0; i < 40; i++) {
  keys.push(await p.message.evaluate((area) => new Promise((done) => {
    const began = performance.now();
    area.focus();
    document.execCommand("insertText", false, "x");
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
  })));
}
console.log(JSON.stringify({ paint: median(paints), frame95: frame, key: median(keys) }));
await browser.close();
await hub.stop();
