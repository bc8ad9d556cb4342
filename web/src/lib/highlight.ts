// Colours for code. Loaded when the first piece of code is on screen; until then it is plain.
import { createLowlight } from "lowlight";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import lua from "highlight.js/lib/languages/lua";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import shell from "highlight.js/lib/languages/shell";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const low = createLowlight({
  bash, c, cpp, css, diff, go, ini, java, javascript, json, lua, makefile, markdown, python, ruby, rust, shell, sql,
  typescript, xml, yaml,
});
low.registerAlias({ ini: ["toml"], typescript: ["tsx"], javascript: ["jsx", "mjs"] });

export type Span = { text: string; kind: string };
interface Node { type: string; value?: string; children?: Node[]; properties?: { className?: unknown } }

function flatten(nodes: Node[], kind: string, out: Span[]): Span[] {
  for (const node of nodes) {
    if (node.type === "text") out.push({ text: node.value ?? "", kind });
    else {
      const names = node.properties?.className;
      flatten(node.children ?? [], Array.isArray(names) ? String(names[0]).replace("hljs-", "") : kind, out);
    }
  }
  return out;
}

const MOST = 60_000; // characters; longer code stays plain

/** The text in coloured pieces, or null where the language is not known. */
export function highlight(text: string, lang: string): Span[] | null {
  if (!lang || text.length > MOST || !low.registered(lang)) return null;
  return flatten(low.highlight(lang, text).children as Node[], "", []);
}
