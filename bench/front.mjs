// Front plugins in a real page: node front.mjs SAVES SWAPS PLUGINS; prints the figures as JSON.
//
// A save is timed from before the file is renamed into place until the frame after the page shows its text: the page
// notes the wall clock in that frame. Hub, compiler and browser share the machine.
import fs from "node:fs";
import path from "node:path";
import { Hub, launch, open } from "../tests/browser/rig.mjs";

const [saves, swaps, plugins] = process.argv.slice(2).map(Number);
const hub = new Hub();
const text = (n, id = "p") => `import { definePlugin } from "afloat";
import { useState } from "react";
function Panel() { const [t, set] = useState(""); return <div><h2 data-version="${n}">version ${n}</h2><input value={t} onChange={(e) => set(e.target.value)} /></div>; }
export default definePlugin({ panels: [{ id: "${id}", title: "P", component: Panel, open: true }] });
`;
function save(name, n) {
  const file = path.join(hub.home, "plugins", name, "front/index.tsx");
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file + ".tmp~", text(n, name));
  const at = Date.now();
  fs.renameSync(file + ".tmp~", file);
  return at;
}

await hub.start();
const browser = await launch();
save("bench", 0);
let { page, context } = await open(browser, hub);
await page.locator("[data-version='0']").waitFor();
await page.evaluate(() => {
  window.__shown = {};
  new MutationObserver(() => {
    const n = document.querySelector("[data-version]")?.dataset.version;
    requestAnimationFrame(() => setTimeout(() => { if (n) window.__shown[n] ??= Date.now(); })); // after that frame's paint
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-version"] });
});
async function swap(n) {
  const began = save("bench", n);
  await page.waitForFunction((v) => window.__shown[v], String(n), { polling: 5 });
  return (await page.evaluate((v) => window.__shown[v], String(n))) - began;
}
const took = [];
for (let n = 1; n <= saves; n++) took.push(await swap(n));
took.sort((a, b) => a - b);

const cdp = await context.newCDPSession(page);
const heap = async () => {
  await cdp.send("HeapProfiler.collectGarbage");
  return (await cdp.send("Runtime.getHeapUsage")).usedSize / 1048576;
};
const before = await heap();
for (let n = saves + 1; n <= saves + swaps; n++) await swap(n);
const grown = (await heap()) - before;
await context.close();

for (let i = 0; i < plugins; i++) save(`many${i}`, i);
for (;;) {
  const { plugins: there } = await hub.api("GET", "/front/plugins");
  if (there.length === plugins + 1) break;
  await new Promise((done) => setTimeout(done, 20));
}
context = await browser.newContext();
page = await context.newPage();
const address = await hub.address();
const began = Date.now();
await page.goto(address);
await page.waitForFunction((n) => document.querySelectorAll("[data-panel-id] [data-version]").length === n, plugins + 1, { polling: 10 });
const all = Date.now() - began;
await browser.close();
await hub.stop();
console.log(JSON.stringify({ p50: took[Math.floor(took.length / 2)], p95: took[Math.floor(took.length * 0.95)], grown, all }));
