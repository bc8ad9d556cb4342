import { useEffect, useMemo, useReducer, useState } from "react";
import { Boundary } from "./Boundary";
import { Confirm } from "./Dialog";
import { FileTree } from "./FileTree";
import { Icon } from "./Icon";
import { Menu } from "./Menu";
import { end, fork, newSessionDialog, purge, rename } from "../lib/actions";
import type { PluginRow, SessionRow } from "../lib/answers";
import { ago, shortPath } from "../lib/format";
import { bots, hubInfo, plugins, runs } from "../lib/lists";
import { useOutputs } from "../lib/registry";
import { loadMore, sessions, sessionTitle, useAllSessions } from "../lib/sessions";
import { useStore } from "../lib/store";
import { cover, currentSession, leftTab, openPanel, palette, theme, type Theme } from "../lib/ui";

/** Draw again each minute: ages grow. */
function useMinutes(): void {
  const [, tick] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const timer = setInterval(tick, 60_000);
    return () => clearInterval(timer);
  }, []);
}

// ---- sessions -----------------------------------------------------------------------------------

/** What wants a person: the highest first. */
function attention(row: SessionRow): string | null {
  if (row.state !== "waiting") return row.state === "crashed" ? "crashed" : null;
  return row.pending.some((p) => p.question_id) ? "question" : "permission";
}

const day = (ts: string): string => {
  const days = Math.floor((new Date().setHours(0, 0, 0, 0) - new Date(ts).setHours(0, 0, 0, 0)) / 86_400_000);
  return days <= 0 ? "Today" : days === 1 ? "Yesterday" : days < 7 ? "This week" : "Earlier";
};

function groups(rows: readonly SessionRow[]): [string, SessionRow[]][] {
  const made = new Map<string, SessionRow[]>();
  for (const row of rows) {
    const name = attention(row) && row.state === "waiting" ? "Needs you" : row.state === "running" ? "Working" : day(row.started_at);
    made.set(name, [...(made.get(name) ?? []), row]);
  }
  const order = ["Needs you", "Working", "Today", "Yesterday", "This week", "Earlier"];
  return [...made].sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
}

function SessionItem({ row, current }: { row: SessionRow; current: boolean }) {
  const [naming, setNaming] = useState(false);
  const [asking, setAsking] = useState<"end" | "purge" | null>(null);
  const badge = attention(row);
  const title = sessionTitle(row);
  if (naming) {
    return (
      <li className="session naming">
        <input aria-label="Title" autoFocus defaultValue={row.title ?? ""} placeholder={title}
          onBlur={() => setNaming(false)}
          onKeyDown={(e) => {
            if (e.key === "Escape") setNaming(false);
            if (e.key === "Enter") { void rename(row.id, e.currentTarget.value.trim()); setNaming(false); }
          }} />
      </li>
    );
  }
  return (
    <li className={current ? "session current" : "session"} data-state={row.state}>
      <button type="button" className="session-main" aria-current={current ? "page" : undefined}
        onClick={() => { currentSession.set(row.id); cover.set("none"); }}>
        <span className={`dot ${row.state}`} aria-hidden="true" />
        <span className="session-title" dir="auto">{title}</span>
        <span className="session-sub">
          {row.bot ? `${row.bot} · ` : ""}{row.working_dir ? shortPath(row.working_dir) : ""}
          <span className="sr-only">, {row.state}</span>
        </span>
        {badge ? <span className={`badge ${badge}`}>{badge}</span> : <time className="session-time" dateTime={row.started_at}>{ago(row.started_at)}</time>}
      </button>
      <Menu label={`Actions for ${title}`} items={[
        { label: "Rename", icon: "edit", run: () => setNaming(true) },
        { label: "Fork", icon: "fork", run: () => void fork(row.id) },
        { label: "Settings", icon: "gear", run: () => openPanel("session", { key: row.id, session: row.id }) },
        ...(row.state !== "ended" ? [{ label: "End", icon: "stop" as const, run: () => setAsking("end") }] : []),
        { label: "Delete", icon: "trash", danger: true, run: () => setAsking("purge") },
      ]} />
      {asking && (
        <Confirm title={asking === "end" ? "End this session?" : "Delete this session?"} onClose={() => setAsking(null)}
          text={asking === "end" ? `"${title}" stays listed and readable, but takes no more messages.` : `"${title}" and its files are removed for good.`}
          action={asking === "end" ? "End" : "Delete"} onYes={() => void (asking === "end" ? end(row.id) : purge(row.id))} />
      )}
    </li>
  );
}

function SessionList() {
  useMinutes();
  const { rows, next, loaded } = useStore(sessions);
  const current = useStore(currentSession);
  const [query, setQuery] = useState("");
  useAllSessions(query.trim() !== "");
  const shown = useMemo(() => {
    const q = query.trim().toLowerCase();
    return q === "" ? rows : rows.filter((r) => `${sessionTitle(r)} ${r.working_dir ?? ""} ${r.bot ?? ""} ${r.state} ${r.id}`.toLowerCase().includes(q));
  }, [rows, query]);
  return (
    <nav aria-label="Sessions" className="sessions">
      <div className="side-bar">
        <span className="field"><Icon name="search" /><input type="search" aria-label="Search sessions" placeholder="Search sessions" value={query} onChange={(e) => setQuery(e.target.value)} /></span>
        <button type="button" className="icon-button" aria-label="New session" title="New session" onClick={() => newSessionDialog.set(true)}><Icon name="plus" /></button>
      </div>
      <div className="side-scroll">
        {groups(shown).map(([name, list]) => (
          <section key={name} aria-label={name}>
            <h2 className="side-head">{name}</h2>
            <ul>{list.map((r) => <SessionItem key={r.id} row={r} current={r.id === current} />)}</ul>
          </section>
        ))}
        {loaded && rows.length === 0 && <p className="side-empty">No sessions yet. Write a message to begin one.</p>}
        {rows.length > 0 && shown.length === 0 && <p className="side-empty">{next ? "Searching older sessions" : "No session matches."}</p>}
        {next && query.trim() === "" && <button type="button" className="link-button" onClick={() => void loadMore()}>Older sessions</button>}
      </div>
    </nav>
  );
}

// ---- bots ---------------------------------------------------------------------------------------

function BotList() {
  useMinutes();
  const all = useStore(bots);
  const done = useStore(runs);
  return (
    <section className="sessions" aria-label="Bots">
      <div className="side-bar">
        <h2 className="side-title">Bots</h2>
        <button type="button" className="icon-button" aria-label="New bot" title="New bot" onClick={() => openPanel("bot", { key: "", bot: "" })}><Icon name="plus" /></button>
      </div>
      <div className="side-scroll">
        <ul>
          {all.map((b) => (
            <li key={b.name} className="session">
              <button type="button" className="session-main" onClick={() => openPanel("bot", { key: b.name, bot: b.name })}>
                <Icon name="bot" /><span className="session-title">{b.name}</span><span className="session-sub">{b.description}</span>
              </button>
            </li>
          ))}
        </ul>
        {all.length === 0 && <p className="side-empty">A bot is an agent with instructions, memory and skills of its own. It works in a git worktree; you review what it did.</p>}
        {done.length > 0 && <h2 className="side-head">Runs</h2>}
        <ul>
          {done.map((r) => (
            <li key={r.run_id} className="session">
              <button type="button" className="session-main" onClick={() => openPanel("run", { key: r.run_id, run: r.run_id })}>
                <span className={`dot ${r.state === "running" ? "running" : r.action === "review" ? "waiting" : "idle"}`} aria-hidden="true" />
                <span className="session-title">{r.bot}: {r.prompt ?? r.run_id}</span>
                <span className="session-sub">{r.state === "running" ? "running" : r.action ?? r.end_reason ?? "ended"}{r.files > 0 ? ` · ${r.files} file${r.files === 1 ? "" : "s"}` : ""}</span>
                <time className="session-time" dateTime={r.started_at}>{ago(r.started_at)}</time>
              </button>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

// ---- plugins ------------------------------------------------------------------------------------

const bad = (p: PluginRow): boolean => p.state === "failed" || p.error !== null || Boolean(p.front_error);

function PluginStrip() {
  const { rows, generation, loaded } = useStore(plugins);
  const [open, setOpen] = useState(true);
  const shown = [...rows].sort((a, b) => Number(bad(b)) - Number(bad(a)) || a.name.localeCompare(b.name));
  return (
    <section className="plugins" aria-label="Plugins" role="region">
      <div className="side-bar">
        <button type="button" className="side-title" aria-expanded={open} onClick={() => setOpen(!open)}>
          <span className={open ? "turn-icon open" : "turn-icon"}><Icon name="chevron" /></span> Plugins
          <span className="dim">generation {generation}</span>
        </button>
        <button type="button" className="icon-button" aria-label="All plugins" title="All plugins" onClick={() => openPanel("plugins")}><Icon name="panel" /></button>
      </div>
      {open && (
        <ul className="side-scroll">
          {shown.map((p) => (
            <li key={p.name} className="plugin" data-plugin={p.name} data-state={p.state}>
              <button type="button" className="session-main" onClick={() => openPanel("plugin", { key: p.name, name: p.name })}>
                <span className={`dot ${bad(p) ? "crashed" : p.serving ? "idle" : "ended"}`} aria-hidden="true" />
                <span className="session-title">{p.name}</span>
                <span className="plugin-meta"><span className="plugin-state">{p.state}</span> r{p.revision} <span title="generation">g{p.generation}</span></span>
                {(p.error ?? p.front_error) && <span className="plugin-error">{p.error ?? p.front_error}</span>}
              </button>
            </li>
          ))}
          {loaded && rows.length === 0 && <li className="side-empty">No plugins. Save a file in <code>~/.afloat/plugins/</code> and it is live at once.</li>}
        </ul>
      )}
    </section>
  );
}

// ---- the whole ----------------------------------------------------------------------------------

const own = [
  { id: "sessions", title: "Sessions", icon: <Icon name="chat" />, component: SessionList },
  { id: "files", title: "Files", icon: <Icon name="folder" />, component: FileTree },
  { id: "bots", title: "Bots", icon: <Icon name="bot" />, component: BotList },
];

export function Sidebar() {
  const tab = useStore(leftTab);
  const contributed = useOutputs("leftTabs");
  const info = useStore(hubInfo);
  const look = useStore(theme);
  const waiting = useStore(sessions, (s) => s.rows.filter((r) => r.state === "waiting").length);
  const tabs = [...own.map((t) => ({ ...t, owner: "afloat", key: t.id })), ...contributed];
  const active = tabs.find((t) => t.id === tab) ?? tabs[0]!;
  const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
  return (
    <aside className="sidebar" aria-label="Workbench">
      <div className="brand">
        <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path d="M4 14h16l-3 6H7zM12 3v9M12 4l6 6h-6" fill="none" stroke="currentColor" strokeWidth="1.8" strokeLinejoin="round" strokeLinecap="round" /></svg>
        <strong>Afloat</strong>
        <span className="grow" />
        <button type="button" className="chip-button" onClick={() => palette.set({ open: true, mode: "commands", query: "" })} aria-keyshortcuts="Control+K Meta+K">
          <Icon name="search" /> <span className="sr-only">Command palette</span> <kbd>Ctrl K</kbd>
        </button>
        <button type="button" className="icon-button only-narrow" aria-label="Close the sidebar" onClick={() => cover.set("none")}><Icon name="close" /></button>
      </div>
      <div className={tabs.length > 3 ? "tabs many" : "tabs"} role="tablist" aria-label="Sidebar">
        {tabs.map((t) => (
          <button key={t.key} type="button" role="tab" id={`tab-${t.key}`} aria-selected={t === active} aria-controls="left-tab" tabIndex={t === active ? 0 : -1} title={t.title}
            onClick={() => leftTab.set(t.id)}
            onKeyDown={(e) => {
              const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
              if (step === 0) return;
              const to = tabs[(tabs.indexOf(t) + step + tabs.length) % tabs.length]!;
              leftTab.set(to.id);
              document.getElementById(`tab-${to.key}`)?.focus();
            }}>
            <Boundary what={`${t.owner}: icon of ${t.title}`} owner={t.owner} reset={t.icon} instead={<Icon name="panel" />}>{t.icon ?? <Icon name="panel" />}</Boundary><span>{t.title}</span>
            {t.key === "sessions" && waiting > 0 && <b className="count" title={`${waiting} need you`}>{waiting}<i className="sr-only"> need you</i></b>}
          </button>
        ))}
      </div>
      <div className="left-tab" id="left-tab" role="tabpanel" aria-labelledby={`tab-${active.key}`} data-left-tab={active.key}>
        <Boundary key={active.key} what={active.title} owner={active.owner} reset={active.component}><active.component /></Boundary>
      </div>
      <PluginStrip />
      <footer className="side-foot">
        <span className="dim" title={info ? `generation ${info.generation}` : ""}>{info ? `v${info.version}` : ""}</span>
        <span className="grow" />
        <button type="button" className="icon-button" aria-label="Terminals" title="Terminals" onClick={() => openPanel("terminals")}><Icon name="terminal" /></button>
        <button type="button" className="icon-button" aria-label="Environment" title="Environment" onClick={() => openPanel("environment")}><Icon name="leaf" /></button>
        <button type="button" className="icon-button" aria-label="Events and logs" title="Events and logs" onClick={() => openPanel("events")}><Icon name="activity" /></button>
        <button type="button" className="icon-button" aria-label={`Theme: ${look}`} title={`Theme: ${look}`} onClick={() => theme.set(next[look])}><Icon name={look === "dark" ? "moon" : look === "light" ? "sun" : "contrast"} /></button>
        <button type="button" className="icon-button" aria-label="Keyboard help" title="Keyboard help" onClick={() => openPanel("help")}><Icon name="keyboard" /></button>
        <button type="button" className="icon-button" aria-label="Settings" title="Settings" onClick={() => openPanel("settings")}><Icon name="gear" /></button>
      </footer>
    </aside>
  );
}
