// Types of the operations that the page calls, from the hub's own description:
//   afloat api GET /openapi.json | node gen-client.mjs          write src/lib/api.gen.ts
//   afloat api GET /openapi.json | node gen-client.mjs --check  exit 1 when it is stale
//
// Only operations named in src/lib/answers.ts (the shape of each answer) are listed, so a new operation of
// the hub does not touch the page; a changed one that the page uses does. The palette, which offers every
// operation, reads /openapi.json itself.
import fs from "node:fs";

const here = new URL("src/lib/", import.meta.url);
const doc = JSON.parse(fs.readFileSync(0, "utf8"));
const used = [...fs.readFileSync(new URL("answers.ts", here), "utf8").matchAll(/^ {2}"([a-z_.]+)":/gm)].map((m) => m[1]);
const types = { string: "string", integer: "number", number: "number", boolean: "boolean", array: "readonly unknown[]", object: "Record<string, unknown>" };

const found = new Map();
for (const [path, methods] of Object.entries(doc.paths)) {
  for (const [method, op] of Object.entries(methods)) found.set(op.operationId, { path, method: method.toUpperCase(), op });
}

const rows = used.map((id) => {
  const hit = found.get(id);
  if (!hit) throw new Error(`the hub has no operation '${id}'`);
  const body = hit.op.requestBody?.content["application/json"].schema ?? { properties: {}, required: [] };
  const params = [
    ...hit.op.parameters.map((p) => ({ name: p.name, at: p.in, must: p.required, type: p.schema.type })),
    ...Object.entries(body.properties).map(([name, s]) => ({ name, at: "body", must: body.required.includes(name), type: s.type })),
  ];
  const fields = params.map((p) => `${p.name}${p.must ? "" : "?"}: ${types[p.type] ?? "unknown"}`).join("; ");
  const query = params.filter((p) => p.at === "query").map((p) => p.name);
  return { id, method: hit.method, path: hit.path, fields, query };
});

const text = [
  "// Made by web/gen-client.mjs from /openapi.json; do not edit.",
  "",
  "/** What each operation takes. */",
  "export interface Params {",
  ...rows.map((r) => `  "${r.id}": { ${r.fields} };`),
  "}",
  "",
  "/** Where it is: method, path, names that go into the query; the rest is the body. */",
  "export const routes: { [K in keyof Params]: readonly [string, string, readonly string[]] } = {",
  ...rows.map((r) => `  "${r.id}": ["${r.method}", "${r.path}", ${JSON.stringify(r.query)}],`),
  "};",
  "",
].join("\n");

const file = new URL("api.gen.ts", here);
if (process.argv[2] === "--check") {
  if (!fs.existsSync(file) || fs.readFileSync(file, "utf8") !== text) {
    console.error("web/src/lib/api.gen.ts is stale: run 'afloat api GET /openapi.json | node web/gen-client.mjs'");
    process.exit(1);
  }
} else {
  fs.writeFileSync(file, text);
}
