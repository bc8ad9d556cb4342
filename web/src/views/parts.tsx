// What the page's own panels share: a frame, loading, facts, tables, small forms of text.
import { useCallback, useEffect, useState, type ReactNode } from "react";
import { Icon, type IconName } from "../components/Icon";
import { explain } from "../lib/client";
import { onOnline, onResync } from "../lib/events";
import { split } from "../lib/files";
import { openPanel } from "../lib/ui";

export interface Load<T> {
  data: T | null;
  error: string | null;
  again(): void;
}

/** Load something, again when `again` is called, a dependency changes, or the hub was away. */
export function useLoad<T>(load: () => Promise<T>, deps: readonly unknown[]): Load<T> {
  const [state, setState] = useState<{ data: T | null; error: string | null }>({ data: null, error: null });
  const [n, setN] = useState(0);
  const again = useCallback(() => setN((x) => x + 1), []);
  useEffect(() => onResync(again), []);
  useEffect(() => (state.error === null ? undefined : onOnline(again)), [state.error]);
  useEffect(() => {
    let on = true;
    load().then((data) => on && setState({ data, error: null }), (e: unknown) => on && setState((s) => ({ ...s, error: explain(e) })));
    return () => { on = false; };
  }, [...deps, n]);
  return { ...state, again };
}

export function View({ title, sub, actions, children }: { title: string; sub?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <div className="view">
      <header className="view-head"><h2>{title}</h2>{sub && <span className="view-sub">{sub}</span>}<span className="grow" /><span className="view-actions">{actions}</span></header>
      <div className="view-body" tabIndex={0} role="group" aria-label={title}>{children}</div>
    </div>
  );
}

export const Failed = ({ error }: { error: string | null }) => (error ? <p className="tool-error" role="alert">{error}</p> : null);

/** Nothing is there yet: what it would be, and how to get one. */
export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return <div className="nothing"><Icon name={icon} /><h3>{title}</h3>{children && <p>{children}</p>}</div>;
}

export const text = (v: unknown): string => (typeof v === "string" ? v : "");

/** Microseconds as people read them. */
export function micros(us: number): string {
  if (us === 0) return "–";
  if (us < 1000) return `${us < 10 ? us.toFixed(1) : Math.round(us)} µs`;
  return us < 1e6 ? `${(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms` : `${(us / 1e6).toFixed(1)} s`;
}

export function bytes(n: number): string {
  return n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(0)} KB` : `${(n / (1 << 20)).toFixed(1)} MB`;
}

/** Open a file by its absolute path in the editor. */
export function openPath(path: string, line?: number): void {
  openPanel("file", { key: path, ...split(path), line });
}

/** A path that opens in the editor; long ones show their end. */
export function PathLink({ path, line }: { path: string; line?: number | null }) {
  const where = line ? `${path}:${line}` : path;
  return <button type="button" className="link-button path" title={where} onClick={() => openPath(path, line ?? undefined)}><bdi>{where}</bdi></button>;
}

/** One of a few, side by side: a group of pressed buttons. */
export function Segments<T extends string>({ label, value, all, onChange }: { label: string; value: T; all: readonly (readonly [T, string])[]; onChange(next: NoInfer<T>): void }) {
  return (
    <div className="segments" role="group" aria-label={label}>
      {all.map(([id, title]) => <button key={id} type="button" aria-pressed={id === value} onClick={() => onChange(id)}>{title}</button>)}
    </div>
  );
}

/** A table; a heading that begins with # is over numbers, an empty one over buttons. */
export function Table({ label, heads, children }: { label: string; heads: readonly string[]; children: ReactNode }) {
  return (
    <div className="table" tabIndex={0} role="group" aria-label={label}>
      <table className="grid">
        <thead><tr>{heads.map((h, i) => <th key={i} scope="col" className={h.startsWith("#") ? "number" : undefined}>{h.replace("#", "") || <span className="sr-only">Actions</span>}</th>)}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
