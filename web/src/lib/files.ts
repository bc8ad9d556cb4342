// Files of a working directory, through the same tools that the agent has: list_files, read_file,
// write_file, outside a session. Sandbox, hooks and permission rules hold for them as for the agent.
import { call, Problem } from "./client";
import { onEvent } from "./events";
import { createStore } from "./store";

async function run(tool: string, dir: string, input: Record<string, unknown>): Promise<string> {
  const answer = await call("tool.run", { name: tool, input, working_dir: dir });
  if (!answer.success) throw new Problem(0, "TOOL_FAILED", answer.error ?? `${tool} failed`);
  return answer.output;
}

export interface Entry {
  name: string;
  path: string;
  dir: boolean;
}

/** One directory, directories first. */
export async function listDir(dir: string, path: string): Promise<Entry[]> {
  const output = await run("list_files", dir, path === "" ? {} : { path });
  const entries = output.split("\n").filter(Boolean).map((line) => {
    const isDir = line.endsWith("/");
    const name = line.replace(/[/@]$/, "").split("/").at(-1)!; // a link ends with @
    return { name, path: path === "" ? name : `${path}/${name}`, dir: isDir };
  });
  return entries.filter((e) => e.name !== ".git").sort((a, b) => Number(b.dir) - Number(a.dir) || a.name.localeCompare(b.name));
}

const deep = new Map<string, { at: number; names: Promise<string[]> }>();

/** Names of all files down to a depth, for completion; asked for again after a while. */
export function allFiles(dir: string): Promise<string[]> {
  const kept = deep.get(dir);
  if (kept && Date.now() - kept.at < 15_000) return kept.names;
  const names = run("list_files", dir, { depth: 8 })
    .then((o) => o.split("\n").filter((l) => l && !/[/@]$/.test(l) && !l.startsWith(".git/") && !l.includes("node_modules/")))
    .catch(() => []);
  deep.set(dir, { at: Date.now(), names });
  return names;
}

/** All of a file; the tool gives 2,000 lines at a time. */
export async function readFile(dir: string, path: string): Promise<string> {
  let text = "";
  for (let line = 1; line <= 200_000; line += 2000) {
    const part = await run("read_file", dir, { path, offset: line, limit: 2000 }).catch((e: unknown) => {
      if (line > 1) return ""; // the offset is behind the last line
      throw e;
    });
    text += part;
    if (part.split("\n").length < 2000) break;
  }
  return text;
}

export async function writeFile(dir: string, path: string, content: string): Promise<void> {
  await run("write_file", dir, { path, content });
  touch();
}

/** Counts up when files may have changed: whoever shows them looks again. */
export const fileTick = createStore(0);
let pending = 0;
function touch(): void {
  deep.clear();
  pending ||= window.setTimeout(() => { pending = 0; fileTick.set((n) => n + 1); }, 150);
}

export function startFiles(): void {
  onEvent("tool.completed", (e) => {
    if (!["read_file", "list_files", "search_files"].includes(String(e.tool))) touch();
  });
  onEvent("session.rewound", touch);
  onEvent("bot.run.ended", touch);
  window.addEventListener("focus", touch);
}

/** Names that hold the letters of `query` in order; tighter and shorter ones first. */
export function fuzzy<T>(query: string, all: readonly T[], text: (t: T) => string, most = 50): T[] {
  if (query === "") return all.slice(0, most);
  const q = query.toLowerCase();
  const scored: [number, T][] = [];
  for (const one of all) {
    const t = text(one).toLowerCase();
    const at = t.indexOf(q);
    let score: number;
    if (at >= 0) score = at === 0 ? 0 : /\W/.test(t[at - 1]!) ? 1 : 2;
    else {
      let i = -1;
      let gaps = 0;
      for (const ch of q) {
        const next = t.indexOf(ch, i + 1);
        if (next < 0) { gaps = -1; break; }
        gaps += next - i - 1;
        i = next;
      }
      if (gaps < 0 || q.length < 2) continue;
      score = 3 + gaps / 20;
    }
    scored.push([score + t.length / 400, one]);
  }
  return scored.sort((a, b) => a[0] - b[0]).slice(0, most).map(([, one]) => one);
}
