// The files of a working directory. Directories that are unfolded are watched: what comes, goes or is renamed
// shows at once, whoever did it. One item is in the tab order; arrow keys, Home, End and letters walk.
import { useEffect, useRef, useState } from "react";
import { mention } from "./Composer";
import { Icon } from "./Icon";
import { attempt, useDirs } from "../lib/actions";
import { explain, Problem } from "../lib/client";
import { fileTick, join, listDir, useListing, writeFile, type Entry } from "../lib/files";
import { baseName, shortPath } from "../lib/format";
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

const opened = new Set<string>(); // directories that are unfolded, over changes of tab and session
const held = createStore(""); // the item in the tab order

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
    else if (/^[\w.]$/.test(e.key)) [...all.slice(at + 1), ...all.slice(0, at)].find((o) => o.ariaLabel?.toLowerCase().startsWith(e.key.toLowerCase()))?.focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <li role="treeitem" aria-expanded={entry.dir ? open : undefined} aria-selected={current} aria-label={entry.name} data-key={key} tabIndex={tabbed ? 0 : -1}
      onKeyDown={onKey} onFocus={(e) => { e.stopPropagation(); held.set(key); }} onClick={(e) => { e.stopPropagation(); act(); }}>
      <span className="tree-row" style={{ paddingInlineStart: `${depth * 14 + 8}px` }}>
        {entry.dir ? <span className={open ? "turn-icon open" : "turn-icon"}><Icon name="chevron" /></span> : <Icon name="file" />}
        <span className="tree-name">{entry.name}</span>
        {entry.link && <span className="dim" title="a link">↗</span>}
        <button type="button" className="icon-button" tabIndex={-1} aria-label={`Mention ${entry.name}`} title="Mention in the message (@)"
          onClick={(e) => { e.stopPropagation(); mention(entry.path); }}><Icon name="at" /></button>
      </span>
      {entry.dir && open && <Dir dir={dir} path={entry.path} depth={depth + 1} />}
    </li>
  );
}

/** Make an empty file, or open the one that is there. */
async function create(dir: string, path: string): Promise<void> {
  const made = await attempt(writeFile(dir, path, "", "").then(() => true, (e: unknown) => {
    if (e instanceof Problem && e.code === "CONFLICT") return true; // it is there
    throw e;
  }));
  if (made) openPanel("file", { key: `${dir}:${path}`, dir, path });
}

export function FileTree() {
  const dir = useDir();
  const [naming, setNaming] = useState(false);
  const usable = dir && dir !== "/";
  return (
    <section className="sessions" aria-label="Files">
      <div className="side-bar">
        <h2 className="side-title" title={dir ?? ""}>{dir ? shortPath(dir) : "Files"}</h2>
        <button type="button" className="icon-button" aria-label="New file" title="New file" disabled={!usable} onClick={() => setNaming(true)}><Icon name="plus" /></button>
        <button type="button" className="icon-button" aria-label="Find a file" title="Find a file" onClick={() => palette.set({ open: true, mode: "files", query: "" })}><Icon name="search" /></button>
        <button type="button" className="icon-button" aria-label="Look again" title="Look again" onClick={() => fileTick.set((n) => n + 1)}><Icon name="reload" /></button>
      </div>
      {naming && usable && (
        <div className="session naming">
          <input aria-label="Path of the new file" autoFocus placeholder={`${baseName(dir)}/new-file.txt`} spellCheck={false} onBlur={() => setNaming(false)}
            onKeyDown={(e) => {
              const path = e.currentTarget.value.trim().replace(/^\/+/, "");
              if (e.key === "Escape") setNaming(false);
              if (e.key === "Enter" && path) { setNaming(false); void create(dir, path); }
            }} />
        </div>
      )}
      <div className="side-scroll tree">{usable ? <Dir key={dir} dir={dir} path="" depth={0} /> : <p className="side-empty">Choose a session, or begin one in a directory, to see its files.</p>}</div>
    </section>
  );
}
