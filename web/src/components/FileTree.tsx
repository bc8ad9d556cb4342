// The files of a working directory. Directories that are unfolded are watched: what comes, goes or is renamed
// shows at once, whoever did it. One item is in the tab order; arrow keys, Home, End and letters walk, F2 renames,
// Delete deletes, and a right click or the menu key opens the item's menu.
import { useEffect, useRef, useState } from "react";
import { mention } from "./Composer";
import { Confirm } from "./Dialog";
import { Icon } from "./Icon";
import { Menu } from "./Menu";
import { attempt, useDirs } from "../lib/actions";
import { explain, Problem } from "../lib/client";
import { countEntry, fileTick, join, listDir, makeDir, moveEntry, relist, removeEntry, useListing, writeFile, type Entry, type Removal } from "../lib/files";
import { baseName, plural, shortPath } from "../lib/format";
import { sessions } from "../lib/sessions";
import { createStore, useStore } from "../lib/store";
import { currentSession, openPanel, palette, panelsOpen } from "../lib/ui";

/** The directory that the chosen session works in. */
export function useDir(): string | null {
  const id = useStore(currentSession);
  const row = useStore(sessions, (s) => s.rows.find((r) => r.id === id));
  const fallback = useDirs()[0];
  return row?.worktree ?? row?.working_dir ?? fallback ?? null;
}

const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf("/")));
const opened = new Set<string>(); // directories that are unfolded, over changes of tab and session
const held = createStore(""); // the item in the tab order
let wanted = ""; // the item that gets the focus when it shows up
const naming = createStore<{ kind: "file" | "folder"; prefix: string } | null>(null); // what is being made
const asking = createStore<{ dir: string; entry: Entry; found: Removal } | null>(null); // what is about to be deleted

async function askToDelete(dir: string, entry: Entry): Promise<void> {
  const found = await attempt(countEntry(dir, entry.path));
  if (found) asking.set({ dir, entry, found });
}

async function rename(dir: string, entry: Entry, name: string): Promise<void> {
  const to = parentOf(entry.path) === "" ? name : `${parentOf(entry.path)}/${name}`;
  const from = `${dir}:${entry.path}`;
  if (!(await attempt(moveEntry(dir, entry.path, to).then(() => true)))) return;
  for (const key of [...opened].filter((k) => k === from || k.startsWith(`${from}/`))) {
    opened.delete(key);
    opened.add(`${dir}:${to}${key.slice(from.length)}`);
  }
  reveal(dir, to);
  relist(join(dir, parentOf(entry.path)));
  relist(join(dir, parentOf(to)));
}

function Dir({ dir, path, depth }: { dir: string; path: string; depth: number }) {
  const tick = useListing(join(dir, path));
  const [found, setFound] = useState<{ entries: Entry[]; more: boolean } | null>(null);
  const [error, setError] = useState<string | null>(null);
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    let on = true;
    listDir(dir, path).then(
      (f) => { if (on) { setFound(f); setError(null); } },
      (e: unknown) => { if (on) setError(explain(e)); },
    );
    return () => { on = false; };
  }, [dir, path, tick]);
  useEffect(() => { // the item that had the tab stop may be gone
    const first = list.current?.querySelector<HTMLElement>("[role=treeitem]");
    if (depth === 0 && first && !list.current?.querySelector("[tabindex='0']")) held.set(first.dataset.key ?? "");
  });
  if (error) return <p className="side-empty" role="alert">{error}</p>;
  if (!found) return null;
  if (found.entries.length === 0 && depth === 0) return <p className="side-empty">The directory is empty. Files show up here as they are made.</p>;
  return (
    <ul ref={list} role={depth === 0 ? "tree" : "group"} aria-label={depth === 0 ? "Files" : undefined}>
      {found.entries.map((e) => <Node key={e.path} dir={dir} entry={e} depth={depth} />)}
      {found.more && <li role="none" className="side-empty">only the first 5,000 are shown</li>}
    </ul>
  );
}

function Node({ dir, entry, depth }: { dir: string; entry: Entry; depth: number }) {
  const key = `${dir}:${entry.path}`;
  const [open, setOpen] = useState(opened.has(key));
  const [renaming, setRenaming] = useState(false);
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => { if (wanted === key) { wanted = ""; item.current?.focus(); } }, [key]);
  const make = (kind: "file" | "folder") => naming.set({ kind, prefix: entry.dir ? `${entry.path}/` : entry.path.slice(0, -entry.name.length) });
  const tabbed = useStore(held, (h) => h === key);
  const current = useStore(panelsOpen, (p) => p.active === "afloat.file" && p.activeParams.dir === dir && p.activeParams.path === entry.path);
  const toggle = (to: boolean) => { if (to) opened.add(key); else opened.delete(key); setOpen(to); };
  const act = () => (entry.dir ? toggle(!open) : openPanel("file", { key, dir, path: entry.path }));
  const onKey = (e: React.KeyboardEvent<HTMLLIElement>) => {
    if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey || e.altKey) return;
    const all = [...(e.currentTarget.closest("[role=tree]")?.querySelectorAll<HTMLElement>("[role=treeitem]") ?? [])];
    const at = all.indexOf(e.currentTarget);
    if (e.key === "Enter" || e.key === " ") act();
    else if (e.key === "ArrowDown") all[at + 1]?.focus();
    else if (e.key === "ArrowUp") all[at - 1]?.focus();
    else if (e.key === "Home") all[0]?.focus();
    else if (e.key === "End") all.at(-1)?.focus();
    else if (e.key === "ArrowRight" && entry.dir) { if (open) all[at + 1]?.focus(); else toggle(true); }
    else if (e.key === "ArrowLeft") { if (entry.dir && open) toggle(false); else e.currentTarget.parentElement?.closest<HTMLElement>("[role=treeitem]")?.focus(); }
    else if (e.key === "@") mention(entry.path);
    else if (e.key === "F2") setRenaming(true);
    else if (e.key === "Delete") void askToDelete(dir, entry);
    else if (/^[\w.]$/.test(e.key)) [...all.slice(at + 1), ...all.slice(0, at)].find((o) => o.ariaLabel?.toLowerCase().startsWith(e.key.toLowerCase()))?.focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <li role="treeitem" aria-expanded={entry.dir ? open : undefined} aria-selected={current} aria-label={entry.name} data-key={key} tabIndex={tabbed ? 0 : -1} ref={item}
      onKeyDown={onKey} onFocus={(e) => { e.stopPropagation(); held.set(key); }} onClick={(e) => { e.stopPropagation(); act(); }}
      onContextMenu={(e) => { e.preventDefault(); e.stopPropagation(); item.current?.querySelector<HTMLElement>("[aria-haspopup]")?.click(); }}>
      <span className="tree-row" style={{ paddingInlineStart: `${depth * 14 + 8}px` }}>
        {entry.dir ? <span className={open ? "turn-icon open" : "turn-icon"}><Icon name="chevron" /></span> : <Icon name="file" />}
        {renaming ? (
          <NameInput label={`New name of ${entry.name}`} value={entry.name} onDone={(name) => {
            setRenaming(false);
            item.current?.focus();
            if (name && name !== entry.name) void rename(dir, entry, name);
          }} />
        ) : (
          <>
            <span className="tree-name" title={entry.name}>{entry.name}</span>
            {entry.link && <span className="dim" title="a link">↗</span>}
            <span className="tree-actions" onClick={(e) => e.stopPropagation()}>
              <button type="button" className="icon-button" tabIndex={-1} aria-label={`Mention ${entry.name}`} title="Mention in the message (@)" onClick={() => mention(entry.path)}><Icon name="at" /></button>
              <Menu label={`Actions for ${entry.name}`} items={[
                { label: "Rename", icon: "edit", run: () => setRenaming(true) },
                { label: "New file here", icon: "file", run: () => make("file") },
                { label: "New folder here", icon: "folder", run: () => make("folder") },
                { label: "Delete", icon: "trash", danger: true, run: () => void askToDelete(dir, entry) },
              ]} />
            </span>
          </>
        )}
      </span>
      {entry.dir && open && <Dir dir={dir} path={entry.path} depth={depth + 1} />}
    </li>
  );
}

/** A name that is typed; Enter gives it to `onDone`, Escape and a click elsewhere give null. */
function NameInput({ label, value, hint, onDone }: { label: string; value: string; hint?: string; onDone(name: string | null): void }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => { // the name without its suffix is what one changes
    const from = value.lastIndexOf("/") + 1;
    const dot = value.lastIndexOf(".");
    input.current!.focus();
    input.current!.setSelectionRange(from, dot > from ? dot : value.length);
  }, []);
  return (
    <input ref={input} aria-label={label} defaultValue={value} placeholder={hint} spellCheck={false} autoComplete="off"
      onClick={(e) => e.stopPropagation()} onBlur={() => onDone(null)}
      onKeyDown={(e) => {
        e.stopPropagation();
        if (e.key === "Escape") onDone(null);
        if (e.key === "Enter") onDone(e.currentTarget.value.trim().replace(/^\/+|\/+$/g, "") || null);
      }} />
  );
}

async function createFolder(dir: string, path: string): Promise<void> {
  if (!(await attempt(makeDir(dir, path).then(() => true)))) return;
  reveal(dir, path);
  for (let at = parentOf(path); ; at = parentOf(at)) {
    relist(join(dir, at));
    if (at === "") break;
  }
}

/** Unfold what is above a path, and give it the focus when it shows up. */
function reveal(dir: string, path: string): void {
  for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1)) opened.add(`${dir}:${path.slice(0, at)}`);
  wanted = `${dir}:${path}`;
}

/** Make an empty file, or open the one that is there. */
async function create(dir: string, path: string): Promise<void> {
  const made = await attempt(writeFile(dir, path, "", "").then(() => true, (e: unknown) => {
    if (e instanceof Problem && e.code === "CONFLICT") return true; // it is there
    throw e;
  }));
  if (made) openPanel("file", { key: `${dir}:${path}`, dir, path });
}

function DeleteDialog() {
  const what = useStore(asking);
  if (!what) return null;
  const { dir, entry, found } = what;
  const inside = found.files + found.dirs - 1;
  const parts = [plural(found.files, "file"), ...(found.dirs > 1 ? [plural(found.dirs - 1, "folder")] : [])].join(" and ");
  const holds = !entry.dir || entry.link ? "" : inside === 0 ? " It is empty." : ` It holds ${found.more ? "more than " : ""}${parts}.`;
  const fate = found.trashed ? "It goes to the trash of the hub." : "It is deleted for good: the trash is on another file system.";
  const run = async () => {
    const all = [...document.querySelectorAll<HTMLElement>(".tree [role=treeitem]")];
    const key = `${dir}:${entry.path}`;
    const at = all.findIndex((o) => o.dataset.key === key);
    const next = all.slice(at + 1).find((o) => !o.dataset.key?.startsWith(`${key}/`)) ?? all[at - 1];
    if (!(await attempt(removeEntry(dir, entry.path), `Deleted ${entry.path}`))) return;
    next?.focus();
    relist(join(dir, parentOf(entry.path)));
  };
  return <Confirm title={`Delete ${entry.name}?`} text={`${entry.path} is a ${entry.link ? "link" : entry.dir ? "folder" : "file"}.${holds} ${fate}`} action="Delete" onClose={() => asking.set(null)} onYes={() => void run()} />;
}

export function FileTree() {
  const dir = useDir();
  const making = useStore(naming);
  const usable = dir && dir !== "/";
  return (
    <section className="sessions" aria-label="Files">
      <div className="side-bar">
        <h2 className="side-title" title={dir ?? ""}>{dir ? shortPath(dir) : "Files"}</h2>
        <button type="button" className="icon-button" aria-label="New file" title="New file" disabled={!usable} onClick={() => naming.set({ kind: "file", prefix: "" })}><Icon name="plus" /></button>
        <button type="button" className="icon-button" aria-label="New folder" title="New folder" disabled={!usable} onClick={() => naming.set({ kind: "folder", prefix: "" })}><Icon name="folder" /></button>
        <button type="button" className="icon-button" aria-label="Find a file" title="Find a file" onClick={() => palette.set({ open: true, mode: "files", query: "" })}><Icon name="search" /></button>
        <button type="button" className="icon-button" aria-label="Look again" title="Look again" onClick={() => fileTick.set((n) => n + 1)}><Icon name="reload" /></button>
      </div>
      {making && usable && (
        <div className="session naming">
          <NameInput key={`${making.kind}:${making.prefix}`} label={`Path of the new ${making.kind}`} value={making.prefix}
            hint={`${baseName(dir)}/new-${making.kind === "file" ? "file.txt" : "folder"}`} onDone={(path) => {
              naming.set(null);
              if (path && path !== making.prefix) void (making.kind === "file" ? create : createFolder)(dir, path);
            }} />
        </div>
      )}
      <div className="side-scroll tree">{usable ? <Dir key={dir} dir={dir} path="" depth={0} /> : <p className="side-empty">Choose a session, or begin one in a directory, to see its files.</p>}</div>
      <DeleteDialog />
    </section>
  );
}
