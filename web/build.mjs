// Bundle the page: node build.mjs OUTPUT_DIRECTORY
//
// Everything below src/ becomes files with their content's hash in the name, so that a browser may keep
// them for ever; index.html names them. The modules that front plugins import by bare name (`react`,
// `afloat`, ...) are entry points of the same build: esbuild puts what they share with the page into
// common chunks, so a plugin gets the page's own copy and never a second React.
//
// manifest.json lists the result for tools/embed_web.py. Texts are compressed here, once, with brotli and
// gzip; the server only picks one.
import { build } from "esbuild";
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";

const require = createRequire(import.meta.url);
const here = path.dirname(new URL(import.meta.url).pathname);
const out = path.resolve(process.argv[2] ?? path.join(here, "../build/web/dist"));

/** Bare names that plugins may import, and the entry that stands for each. */
const shared = {
  react: "shared:react",
  "react-dom": "shared:react-dom",
  "react-dom/client": "shared:react-dom/client",
  "react/jsx-runtime": "shared:react/jsx-runtime",
  afloat: path.join(here, "sdk/index.ts"),
  "afloat/react": path.join(here, "sdk/react.ts"),
  "afloat/jsx-runtime": path.join(here, "sdk/jsx-runtime.ts"),
};

/** React's packages are CommonJS: list their names, so that `import { useState } from "react"` works. */
const reexport = {
  name: "shared",
  setup(b) {
    b.onResolve({ filter: /^shared:/ }, (a) => ({ path: a.path.slice(7), namespace: "shared" }));
    b.onLoad({ filter: /.*/, namespace: "shared" }, (a) => {
      const names = Object.keys(require(a.path)).filter((n) => n !== "default");
      return {
        contents: `import m from ${JSON.stringify(a.path)};\nexport default m;\nexport const { ${names.join(", ")} } = m;`,
        resolveDir: here,
      };
    });
  },
};

const entryName = (bare) => bare.replace(/\W+/g, "-");

process.env.NODE_ENV = "production"; // also for the require() above
fs.rmSync(out, { recursive: true, force: true });
const result = await build({
  absWorkingDir: here,
  entryPoints: [
    { in: "src/main.tsx", out: "main" },
    ...Object.entries(shared).map(([bare, file]) => ({ in: file, out: entryName(bare) })),
  ],
  outdir: path.join(out, "assets"),
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022"],
  minify: true,
  legalComments: "none",
  jsx: "automatic",
  entryNames: "[name]-[hash]",
  chunkNames: "chunk-[hash]",
  assetNames: "[name]-[hash]",
  loader: { ".svg": "file" },
  alias: { afloat: path.join(here, "sdk/index.ts") },
  define: { "process.env.NODE_ENV": '"production"' },
  plugins: [reexport],
  inject: [path.join(here, "src/page.ts")], // few files: a browser pays for each request
  metafile: true,
  logLevel: "warning",
});

const outputs = Object.entries(result.metafile.outputs);
const url = (file) => "/assets/" + path.basename(file);
const withEntry = (name) => outputs.find(([f, o]) => o.entryPoint && path.basename(f).replace(/-[^-]*\.js$/, "") === name);
const [mainFile, main] = withEntry("main");
const imports = Object.fromEntries(Object.keys(shared).map((bare) => [bare, url(withEntry(entryName(bare))[0])]));

/** What main and the modules of plugins need before they can run: static imports, and theirs. */
const needed = new Set();
function walk(file) {
  for (const i of result.metafile.outputs[file].imports) {
    if (i.kind === "import-statement" && !needed.has(i.path)) {
      needed.add(i.path);
      walk(i.path);
    }
  }
}
walk(mainFile);
for (const file of Object.keys(shared).filter((bare) => bare.startsWith("afloat")).map((bare) => withEntry(entryName(bare))[0])) {
  needed.add(file);
  walk(file);
}

const html = fs.readFileSync(path.join(here, "src/index.html"), "utf8")
  .replace("%IMPORTMAP%", JSON.stringify({ imports }))
  .replace("%STYLE%", url(main.cssBundle))
  .replace("%PRELOAD%", [...needed].map((f) => `<link rel="modulepreload" href="${url(f)}">`).join("\n"))
  .replace("%MAIN%", url(mainFile));
fs.writeFileSync(path.join(out, "index.html"), html);

const types = { ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
const brotli = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 11, [zlib.constants.BROTLI_PARAM_SIZE_HINT]: 0 } };
const files = fs.readdirSync(path.join(out, "assets")).sort();
let first = Buffer.byteLength(html);
const assets = files.map((name) => {
  const file = path.join(out, "assets", name);
  const bytes = fs.readFileSync(file);
  const packed = zlib.brotliCompressSync(bytes, brotli);
  fs.writeFileSync(file + ".br", packed);
  fs.writeFileSync(file + ".gz", zlib.gzipSync(bytes, { level: 9 }));
  const early = [mainFile, main.cssBundle, ...needed].some((f) => path.basename(f) === name);
  first += early ? packed.length : 0;
  return { name, type: types[path.extname(name)] ?? "application/octet-stream", first: early };
});
fs.writeFileSync(path.join(out, "manifest.json"), JSON.stringify({ first_bytes: first, assets }, null, 1) + "\n");
console.log(`web: ${files.length} files; ${Math.round(first / 1024)} KB compressed before lazy parts`);
