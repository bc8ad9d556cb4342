// Files, listed, watched, read and written by the hub itself (`files.*`): a person looks and edits here, not an
// agent, so no tool is called. What would let a page become the user (keys, tokens, trust) the hub does not give.
import { useEffect } from "react";
import { call } from "./client";
import { link, onEvent, onResync } from "./events";
import { createStore, useStore } from "./store";
import { panelsOpen } from "./ui";

export interface Entry {
  name: string;
  path: string;
  dir: boolean;
  link: boolean;
}
export const join = (dir: string, path: string): string => (path === "" ? dir : `${dir === "/" ? "" : dir}/${path}`);

/** An absolute path as its directory and the name in it. */
export function split(path: string): { dir: string; path: string } {
  const at = path.lastIndexOf("/");
  return { dir: path.slice(0, at) || "/", path: path.slice(at + 1) };
}

/** One directory, directories first. */
export async function listDir(dir: string, path: string): Promise<{ entries: Entry[]; more: boolean }> {
  const { entries, more } = await call("files.list", { dir: join(dir, path) });
  const made = entries.filter((e) => e.name !== ".git").map((e) => ({
    name: e.name, path: path === "" ? e.name : `${path}/${e.name}`, dir: e.kind === "dir", link: e.link ?? false,
  }));
  return { entries: made.sort((x, y) => Number(y.dir) - Number(x.dir) || x.name.localeCompare(y.name)), more };
}

const deep = new Map<string, { at: number; names: Promise<string[]> }>();

/** Names of all files below it, for completion; asked for again after a while. */
export function allFiles(dir: string): Promise<string[]> {
  const kept = deep.get(dir);
  if (kept && Date.now() - kept.at < 15_000) return kept.names;
  const names = call("files.find", { dir }).then((found) => found.names, () => []);
  deep.set(dir, { at: Date.now(), names });
  return names;
}

export interface TextFile {
  text: string;
  /** What it was when it was read: a write with it fails when another wrote meanwhile. */
  stamp: string;
}
export const readFile = (dir: string, path: string): Promise<TextFile> => call("files.read", { path: join(dir, path) });

/** Write it; with a stamp only over what was read (`CONFLICT` otherwise). */
export async function writeFile(dir: string, path: string, text: string, stamp?: string): Promise<string> {
  return (await call("files.write", { path: join(dir, path), text, stamp })).stamp;
}

/** What deleting takes away; `more`: there is more than was counted; `trashed`: it can be taken back by hand. */
export interface Removal {
  files: number;
  dirs: number;
  more: boolean;
  trashed: boolean;
}
export const countEntry = (dir: string, path: string): Promise<Removal> => call("files.remove", { path: join(dir, path), dry_run: true });
export const removeEntry = (dir: string, path: string): Promise<Removal> => call("files.remove", { path: join(dir, path) });
export const makeDir = (dir: string, path: string): Promise<unknown> => call("files.mkdir", { path: join(dir, path) });

/** Rename; editors of what was moved follow it with what was typed in them. */
export async function moveEntry(dir: string, path: string, to: string): Promise<void> {
  const [from, goal] = [join(dir, path), join(dir, to)];
  await call("files.move", { path: from, to: goal });
  for (const p of panelsOpen.get().panels) {
    if (p.key !== "afloat.file") continue;
    const base = String(p.params.dir);
    const whole = join(base, String(p.params.path));
    if (whole !== from && !whole.startsWith(`${from}/`)) continue;
    const now = goal + whole.slice(from.length);
    const below = base === "/" ? base : `${base}/`;
    const at = now.startsWith(below) ? { dir: base, path: now.slice(below.length) } : split(now); // else its directory was moved itself
    p.update({ key: `${at.dir}:${at.path}`, ...at });
  }
}

// ---- changes ------------------------------------------------------------------------------------

/** Counts up when files may have changed anywhere: whoever shows them looks again. */
export const fileTick = createStore(0);
/** By directory: counts up when entries came or went. */
const listings = createStore<Record<string, number>>({});
/** By path of a file: counts up when it was written, made or removed. */
const written = createStore<Record<string, number>>({});
const shown = new Map<string, number>(); // directories on screen, and how often
let watched: ReadonlySet<string> = new Set(); // by the hub, as it last said
const RENEW_MS = 25_000; // the hub lets go of what is not asked for in a minute
let asking = 0;
let renewing = 0;

function ask(): void {
  asking ||= window.setTimeout(() => {
    asking = 0;
    clearTimeout(renewing);
    if (shown.size === 0 || document.hidden || link.get() !== "online") return; // asked again when that changes
    call("files.watch", { dirs: [...shown.keys()].slice(0, 256) }).then(({ watching }) => {
      const fresh = watching.filter((dir) => !watched.has(dir)); // what came before the watch is seen by another look
      watched = new Set(watching);
      if (fresh.length > 0) listings.set((l) => fresh.reduce(plus, l));
    }, () => undefined); // without it a look at the page refreshes
    renewing = window.setTimeout(ask, RENEW_MS);
  }, 50);
}

function touch(): void {
  deep.clear();
  fileTick.set((n) => n + 1);
}

const plus = (counts: Record<string, number>, name: string): Record<string, number> => ({ ...counts, [name]: (counts[name] ?? 0) + 1 });

/** The entries of a directory changed here: do not wait for the hub's word. */
export const relist = (dir: string): void => listings.set((l) => plus(l, dir));

/** Watch a directory while the component is there; counts up when entries of it came or went. */
export function useListing(dir: string): number {
  useEffect(() => {
    shown.set(dir, (shown.get(dir) ?? 0) + 1);
    ask();
    return () => {
      const left = (shown.get(dir) ?? 1) - 1;
      if (left > 0) shown.set(dir, left);
      else shown.delete(dir);
    };
  }, [dir]);
  return useStore(listings, (l) => l[dir] ?? 0) + useStore(fileTick);
}

/** Watch a file in the same way; counts up when it was written, made or removed. */
export function useWritten(dir: string, path: string): number {
  const whole = join(dir, path);
  useListing(whole.slice(0, whole.lastIndexOf("/")) || "/");
  return useStore(written, (w) => w[whole] ?? 0) + useStore(fileTick);
}

export function startFiles(): void {
  onEvent("files.changed", (e) => {
    const dir = String(e.dir);
    deep.clear();
    if (e.listing) listings.set((l) => plus(l, dir));
    if (Array.isArray(e.names)) {
      for (const name of e.names as string[]) written.set((w) => plus(w, join(dir, name)));
    } else touch();
  });
  onEvent("session.rewound", touch);
  onEvent("bot.run.ended", touch);
  onEvent("tool.completed", () => deep.clear());
  onResync(touch);
  link.subscribe(() => { watched = new Set(); ask(); }); // a hub that was away has forgotten what is on screen
  window.addEventListener("focus", touch); // for file systems that tell of no changes
  document.addEventListener("visibilitychange", ask);
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
