// Run the browser tests: node run.mjs [NAME...]; one hub and one browser for all. Prints a line for each
// test; exits 1 when one failed.
import fs from "node:fs";
import path from "node:path";
import { Hub, launch, root } from "./rig.mjs";

const here = path.join(root, "tests/browser");
const wanted = process.argv.slice(2);
const files = fs.readdirSync(here).filter((f) => f.endsWith(".test.mjs")).sort();
const browser = await launch();
let failed = 0;
for (const file of files) {
  const { tests } = await import(path.join(here, file));
  const hub = new Hub();
  await hub.start();
  for (const [name, test] of Object.entries(tests)) {
    if (wanted.length > 0 && !wanted.some((w) => name.includes(w) || file.includes(w))) continue;
    const began = Date.now();
    try {
      await test({ browser, hub });
      console.log(`ok ${name} (${Date.now() - began} ms)`);
    } catch (e) {
      failed++;
      console.log(`FAIL ${file}: ${name}\n${String(e.stack ?? e).replace(/\x1b\[\d+m/g, "").split("\n").slice(0, 14).join("\n").replace(/^/gm, "    ")}`);
    } finally {
      for (const context of browser.contexts()) await context.close().catch(() => undefined);
    }
  }
  await hub.stop();
}
await browser.close();
console.log(failed === 0 ? "all browser tests passed" : `${failed} browser tests failed`);
process.exit(failed === 0 ? 0 : 1);
