// Numbers, times and paths as people read them.
import type { Usage } from "./answers";

const units: [Intl.RelativeTimeFormatUnit, number][] = [["day", 86_400], ["hour", 3600], ["minute", 60]];
let relative: Intl.RelativeTimeFormat | undefined; // made when needed: it is slow to make, and the page starts without

/** "5 min ago", "yesterday"; seconds are "now". */
export function ago(ts: string, now = Date.now()): string {
  const seconds = (Date.parse(ts) - now) / 1000;
  for (const [unit, size] of units) if (Math.abs(seconds) >= size) return (relative ??= new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" })).format(Math.trunc(seconds / size), unit);
  return "now";
}

export const clock = (ts: string): string =>
  new Date(ts).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export const count = (n: number): string => (n < 1000 ? String(n) : n < 1e6 ? `${(n / 1000).toFixed(1)}k` : `${(n / 1e6).toFixed(2)}M`);

/** "12.4k in, 380 out, $0.031"; a cost that is not known is left out. Nothing while no request has told its usage: one
 *  that was cut off never does. */
export function usageText(u: Usage | null): string {
  if (!u || u.input === null || (u.input === 0 && !u.output)) return "";
  const parts = [`${count(u.input)} in`, `${count(u.output ?? 0)} out`];
  if (u.cost_usd !== null) parts.push(`$${u.cost_usd < 0.01 ? u.cost_usd.toFixed(4) : u.cost_usd.toFixed(2)}`);
  return parts.join(" · ");
}

/** The last two parts of a path. */
export const shortPath = (path: string): string => path.split("/").filter(Boolean).slice(-2).join("/") || "/";
export const baseName = (path: string): string => path.split("/").filter(Boolean).at(-1) ?? path;

/** The language of a file for the highlighter and the editor. */
const byEnding: Record<string, string> = {
  c: "c", h: "c", cc: "cpp", cpp: "cpp", hpp: "cpp", css: "css", go: "go", html: "xml", xml: "xml", svg: "xml", ini: "ini", toml: "toml",
  java: "java", js: "javascript", mjs: "javascript", jsx: "jsx", ts: "typescript", tsx: "tsx", json: "json", lua: "lua", md: "markdown",
  py: "python", rb: "ruby", rs: "rust", sh: "bash", bash: "bash", sql: "sql", yml: "yaml", yaml: "yaml", diff: "diff", patch: "diff",
};
export function languageOf(path: string): string {
  const name = baseName(path);
  if (/^makefile$/i.test(name)) return "makefile";
  const ending = name.split(".").at(-1)!.toLowerCase();
  return Object.hasOwn(byEnding, ending) ? byEnding[ending]! : ""; // a name may end with .constructor
}

export const plural = (n: number, one: string): string => `${n} ${one}${n === 1 ? "" : "s"}`;
