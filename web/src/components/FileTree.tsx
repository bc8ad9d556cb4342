import { useEffect, useState } from "react";
import { Icon } from "./Icon";
import { useDirs } from "../lib/actions";
import { explain } from "../lib/client";
import { fileTick, listDir, type Entry } from "../lib/files";
import { shortPath } from "../lib/format";
import { sessions } from "../lib/sessions";
import { useStore } from "../lib/store";
import { currentSession, openPanel, palette } from "../lib/ui";

/** The directory that the chosen session works in. */
export function useDir(): string | null {
  const id = useStore(currentSession);
  const row = useStore(sessions, (s) => s.rows.find((r) => r.id === id));
  const fallback = useDirs()[0];
  return row?.worktree ?? row?.working_dir ?? fallback ?? null;
}

const opened = new Set<string>(); // directories that are unfolded, over changes of tab and session

function Dir({ dir, path, depth }: { dir: string; path: string; depth: number }) {
  const tick = useStore(fileTick);
  const [entries, setEntries] = useState<Entry[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let on = true;
    listDir(dir, path).then(
      (e) => { if (on) { setEntries(e); setError(null); } },
      (e: unknown) => { if (on) setError(explain(e)); },
    );
    return () => { on = false; };
  }, [dir, path, tick]);
  if (error) return <p className="side-empty">{error}</p>;
  if (!entries) return null;
  if (entries.length === 0 && depth === 0) return <p className="side-empty">The directory is empty.</p>;
  return <ul role={depth === 0 ? "tree" : "group"} aria-label={depth === 0 ? "Files" : undefined}>{entries.map((e) => <Node key={e.path} dir={dir} entry={e} depth={depth} />)}</ul>;
}

function Node({ dir, entry, depth }: { dir: string; entry: Entry; depth: number }) {
  const key = `${dir}:${entry.path}`;
  const [open, setOpen] = useState(opened.has(key));
  const toggle = (to: boolean) => { if (to) opened.add(key); else opened.delete(key); setOpen(to); };
  const act = () => (entry.dir ? toggle(!open) : openPanel("file", { key, dir, path: entry.path }));
  const onKey = (e: React.KeyboardEvent<HTMLLIElement>) => {
    if (e.target !== e.currentTarget) return;
    const all = [...(e.currentTarget.closest("[role=tree]")?.querySelectorAll<HTMLElement>("[role=treeitem]") ?? [])];
    const at = all.indexOf(e.currentTarget);
    if (e.key === "Enter" || e.key === " ") act();
    else if (e.key === "ArrowDown") all[at + 1]?.focus();
    else if (e.key === "ArrowUp") all[at - 1]?.focus();
    else if (e.key === "ArrowRight" && entry.dir) { if (open) all[at + 1]?.focus(); else toggle(true); }
    else if (e.key === "ArrowLeft") { if (entry.dir && open) toggle(false); else e.currentTarget.parentElement?.closest<HTMLElement>("[role=treeitem]")?.focus(); }
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <li role="treeitem" aria-expanded={entry.dir ? open : undefined} aria-label={entry.name} tabIndex={0} onKeyDown={onKey}
      onClick={(e) => { e.stopPropagation(); act(); }}>
      <span className="tree-row" style={{ paddingInlineStart: `${depth * 14 + 10}px` }}>
        {entry.dir ? <span className={open ? "turn-icon open" : "turn-icon"}><Icon name="chevron" /></span> : <Icon name="file" />}
        <span className="tree-name">{entry.name}</span>
      </span>
      {entry.dir && open && <Dir dir={dir} path={entry.path} depth={depth + 1} />}
    </li>
  );
}

export function FileTree() {
  const dir = useDir();
  return (
    <section className="sessions" aria-label="Files">
      <div className="side-bar">
        <h2 className="side-title" title={dir ?? ""}>{dir ? shortPath(dir) : "Files"}</h2>
        <button type="button" className="icon-button" aria-label="Find a file" title="Find a file" onClick={() => palette.set({ open: true, mode: "files", query: "" })}><Icon name="search" /></button>
        <button type="button" className="icon-button" aria-label="Look again" title="Look again" onClick={() => fileTick.set((n) => n + 1)}><Icon name="reload" /></button>
      </div>
      <div className="side-scroll tree">{dir && dir !== "/" ? <Dir key={dir} dir={dir} path="" depth={0} /> : <p className="side-empty">Choose a session to see its files.</p>}</div>
    </section>
  );
}
