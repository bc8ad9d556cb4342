import { useEffect, useState, type ReactNode } from "react";
import { Boundary } from "./components/Boundary";
import { Composer, writeDraft } from "./components/Composer";
import { ConversationView } from "./components/Conversation";
import { Confirm } from "./components/Dialog";
import { Icon } from "./components/Icon";
import { later } from "./components/Later";
import { Menu } from "./components/Menu";
import { NewSession, Palette } from "./components/Palette";
import { Sidebar } from "./components/Sidebar";
import { Toasts } from "./components/Toasts";
import { compact, end, exportSession, fork, newSessionDialog, rename, setPermission } from "./lib/actions";
import type { SessionRow } from "./lib/answers";
import { call } from "./lib/client";
import { link, retryNow } from "./lib/events";
import { shortPath, usageText } from "./lib/format";
import { useKeys } from "./lib/keys";
import { useOutputs } from "./lib/registry";
import { sessions, sessionTitle } from "./lib/sessions";
import { useStore } from "./lib/store";
import { cover, currentSession, dockWanted, dockWidth, openPanel, palette, sidebarShown, sidebarWidth, theme } from "./lib/ui";

const Dock = later(() => import("./components/Dock").then((m) => m.default));

/** A border that is dragged, or moved with the arrow keys. */
function Splitter({ label, value, min, max, onChange, sign }: { label: string; value: number; min: number; max: number; onChange(px: number): void; sign: 1 | -1 }) {
  const clamp = (px: number) => Math.round(Math.max(min, Math.min(max, px)));
  return (
    <div className="splitter" role="separator" aria-orientation="vertical" aria-label={label} aria-valuenow={value} aria-valuemin={min} aria-valuemax={max} tabIndex={0}
      onKeyDown={(e) => {
        const step = e.key === "ArrowRight" ? 16 : e.key === "ArrowLeft" ? -16 : 0;
        if (step) { e.preventDefault(); onChange(clamp(value + step * sign)); }
      }}
      onPointerDown={(e) => {
        const from = e.clientX;
        const target = e.currentTarget;
        target.setPointerCapture(e.pointerId);
        const move = (m: PointerEvent) => onChange(clamp(value + (m.clientX - from) * sign));
        const up = () => { target.removeEventListener("pointermove", move); target.removeEventListener("pointerup", up); };
        target.addEventListener("pointermove", move);
        target.addEventListener("pointerup", up);
      }} />
  );
}

function Banner() {
  const state = useStore(link);
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(state === "offline" || state === "connecting"), state === "online" ? 0 : 600);
    return () => clearTimeout(timer);
  }, [state]);
  if (state === "refused") {
    return <div className="banner error" role="alert">This browser is no longer signed in. Run <code>afloat open</code> in a terminal and use the address that it prints.</div>;
  }
  if (!late || state === "online") return null;
  return (
    <div className="banner" role="alert">
      <span className="spinner" aria-hidden="true" /> The hub is away. What you see stays; the page goes on as soon as it is back.
      <button type="button" className="button" onClick={retryNow}>Try now</button>
    </div>
  );
}

function Header({ id, row }: { id: string | null; row: SessionRow | undefined }) {
  const [naming, setNaming] = useState(false);
  const [ending, setEnding] = useState(false);
  const wanted = useStore(dockWanted);
  const others = useStore(sessions, (s) => s.rows.filter((r) => r.state === "waiting" && r.id !== row?.id).length);
  return (
    <header className="head">
      <button type="button" className="icon-button only-narrow" aria-label="Open the sidebar" onClick={() => cover.set("sidebar")}><Icon name="menu" />{others > 0 && <b className="count">{others}<i className="sr-only"> need you</i></b>}</button>
      {row && naming ? (
        <input className="head-title" aria-label="Title" autoFocus defaultValue={row.title ?? ""} placeholder={sessionTitle(row)} onBlur={() => setNaming(false)}
          onKeyDown={(e) => {
            if (e.key === "Escape") setNaming(false);
            if (e.key === "Enter") { void rename(row.id, e.currentTarget.value.trim()); setNaming(false); }
          }} />
      ) : <h1 className="head-title" title={row ? sessionTitle(row) : undefined}>{row ? sessionTitle(row) : id ? "Session" : "New session"}</h1>}
      {row && (
        <>
          <span className="head-facts">
            <button type="button" className="chip-button wide-only" title={row.worktree ?? row.working_dir ?? ""} onClick={() => openPanel("session", { key: row.id, session: row.id })}><Icon name="folder" /> {shortPath(row.worktree ?? row.working_dir ?? "/")}</button>
            <button type="button" className="chip-button wide-only" title={`${row.provider}/${row.model}${row.fallback ? ": no model key was found" : ""}`} onClick={() => openPanel("session", { key: row.id, session: row.id })}>{row.fallback ? "demo model" : row.model}</button>
            <select className="chip-select" aria-label="Permission" value={row.permission} onChange={(e) => void setPermission(row.id, e.target.value)}>
              {["ask", "edits", "plan", "auto", "deny"].map((p) => <option key={p}>{p}</option>)}
            </select>
            <span className="dim usage wide-only" title="tokens and cost of this session">{usageText(row.usage)}</span>
          </span>
          <Menu label="Session actions" items={[
            { label: "Rename", icon: "edit", run: () => setNaming(true) },
            { label: "Rewind", icon: "undo", run: () => openPanel("rewind", { key: row.id, session: row.id }) },
            { label: "Fork", icon: "fork", run: () => void fork(row.id) },
            { label: "Compact", icon: "merge", run: () => void compact(row.id) },
            { label: "Export", icon: "file", run: () => exportSession(row.id) },
            { label: "Settings", icon: "gear", run: () => openPanel("session", { key: row.id, session: row.id }) },
            ...(row.state === "ended" ? [] : [{ label: "End", icon: "stop" as const, danger: true, run: () => setEnding(true) }]),
          ]} />
        </>
      )}
      <button type="button" className="icon-button only-narrow" aria-label="New session" onClick={() => newSessionDialog.set(true)}><Icon name="plus" /></button>
      {wanted && <button type="button" className="icon-button only-narrow" aria-label="Open the panels" onClick={() => cover.set("dock")}><Icon name="panel" /></button>}
      {ending && row && <Confirm title="End this session?" text="It stays listed and readable, but takes no more messages." action="End" onClose={() => setEnding(false)} onYes={() => void end(row.id)} />}
    </header>
  );
}

/** Without a key answers come from the demo model: say so before the first message, and how to change it. */
function NoKey() {
  const [lacking, setLacking] = useState(false);
  useEffect(() => {
    let on = true;
    call("provider.list", {}).then(({ providers }) => {
      const used = providers.find((p) => p.default);
      if (on) setLacking(used?.kind === "scripted" && !providers.some((p) => p.kind !== "scripted" && p.has_key));
    }, () => undefined);
    return () => { on = false; };
  }, []);
  return lacking ? <p className="hint" role="note"><Icon name="warning" /> <span>No model key was found: a scripted demo model answers. <code>afloat setup</code> in a terminal adds one.</span></p> : null;
}

function Welcome() {
  const ideas = ["What is in this directory?", "Run the tests and tell me what fails", "Write a plugin that logs every tool call"];
  return (
    <section className="conversation" role="region" aria-label="Conversation">
      <div className="empty welcome">
        <h2>What shall we work on?</h2>
        <p>Say it below. The agent works in the directory that you choose; you see each step, and you decide what runs.</p>
        <ul>{ideas.map((i) => <li key={i}><button type="button" className="idea" onClick={() => writeDraft(null, i)}>{i}</button></li>)}</ul>
        <NoKey />
        <p className="dim"><kbd>Ctrl K</kbd> finds everything: commands, sessions, files, panels, every operation of the hub.</p>
      </div>
    </section>
  );
}

/** The providers that plugins contribute, one inside the other; without one that fails. */
function Providers({ session, children }: { session: string | null; children: ReactNode }) {
  const providers = useOutputs("providers");
  return providers.reduceRight<ReactNode>((inner, p) => (
    <Boundary key={p.key} what={`${p.owner}: provider ${p.id}`} owner={p.owner} reset={p.component} instead={inner}><p.component>{inner}</p.component></Boundary>
  ), <Boundary what="The page" owner="afloat" reset={session}>{children}</Boundary>);
}

function Bindings() {
  const bindings = useOutputs("bindings");
  return <div hidden>{bindings.map((b) => <Boundary key={b.key} what={`${b.owner}: binding ${b.id}`} owner={b.owner} reset={b.component}><b.component /></Boundary>)}</div>;
}

export function App() {
  const id = useStore(currentSession);
  const row = useStore(sessions, (s) => s.rows.find((r) => r.id === id));
  const over = useStore(cover);
  const wanted = useStore(dockWanted);
  const left = useStore(sidebarWidth);
  const right = useStore(dockWidth);
  const shown = useStore(sidebarShown);
  const look = useStore(theme);
  const { open } = useStore(palette);
  useKeys();
  useEffect(() => { document.documentElement.dataset.theme = look; }, [look]);
  useEffect(() => { document.title = row ? `${row.state === "waiting" ? "● " : ""}${sessionTitle(row)} · Afloat` : "Afloat"; }, [row]);
  return (
    <Providers session={id}>
      <div className="app" data-cover={over} data-dock={wanted} data-sidebar={shown}
        style={{ "--left": `${left}px`, "--right": `${right}px` } as React.CSSProperties}>
        <a className="skip" href="#message" onClick={(e) => { e.preventDefault(); document.querySelector<HTMLElement>("[aria-label=Message]")?.focus(); }}>To the message</a>
        <Banner />
        <Sidebar />
        <Splitter label="Width of the sidebar" value={left} min={200} max={480} sign={1} onChange={(px) => sidebarWidth.set(px)} />
        <main className="main">
          <Header id={id} row={row} />
          {id ? <ConversationView key={id} id={id} /> : <Welcome />}
          <Composer id={id} row={row} />
          <p className="sr-only" aria-live="polite">{row?.state === "running" ? "working" : row?.state === "waiting" ? "needs you" : row ? "ready" : ""}</p>
        </main>
        {wanted && (
          <>
            <Splitter label="Width of the panels" value={right} min={280} max={1400} sign={-1} onChange={(px) => dockWidth.set(px)} />
            <section className="dock-area" aria-label="Panels">
              <Boundary what="The dock" owner="afloat"><Dock /></Boundary>
            </section>
          </>
        )}
        {over !== "none" && <button type="button" className="backdrop" aria-label="Close" tabIndex={-1} onClick={() => cover.set("none")} />}
        <Toasts />
      </div>
      {open && <Palette />}
      <NewSession />
      <Bindings />
    </Providers>
  );
}
