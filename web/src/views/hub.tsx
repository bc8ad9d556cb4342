// The hub's own matters: terminals, environment, events and logs, settings, keys.
import { useEffect, useRef, useState } from "react";
import { CopyButton } from "../components/Code";
import { useConversation } from "../components/Conversation";
import { useDir } from "../components/FileTree";
import { Icon } from "../components/Icon";
import { attempt, slashes } from "../lib/actions";
import type { ConfigValue, LogLine, Usage } from "../lib/answers";
import { call, request } from "../lib/client";
import { onEvent, pastEvents, recentEvents } from "../lib/events";
import { ago, clock, duration, usageText } from "../lib/format";
import type { HubEvent } from "../lib/hub";
import { hubInfo } from "../lib/lists";
import { useOutputs } from "../lib/registry";
import { findSession, sessionTitle } from "../lib/sessions";
import { useStore } from "../lib/store";
import { loadTerminals, newTerminal, terminalName, terminals } from "../lib/terminals";
import { currentSession, openPanel, theme, type Theme } from "../lib/ui";
import { Empty, Failed, openPath, Segments, Table, text, useLoad, View } from "./parts";
import { Diagnostics, Lines } from "./plugins";

// ---- terminals ---------------------------------------------------------------------------------------

export function TerminalsView() {
  const dir = useDir();
  const all = useStore(terminals);
  const shown = useLoad(loadTerminals, []);
  const end = (id: string) => attempt(request("DELETE", `/pty/${encodeURIComponent(id)}`), "Ended");
  return (
    <View title="Terminals" actions={<button type="button" className="button primary" onClick={() => void attempt(newTerminal(dir))}><Icon name="plus" /> New terminal</button>}>
      <p className="dim">A terminal stays when the page is closed and when the hub restarts.</p>
      <Failed error={shown.error} />
      {all?.length === 0 && <Empty icon="terminal" title="No terminal is open">A new one starts a shell in {dir ? <code>{dir}</code> : "your home directory"}.</Empty>}
      <ul className="rows" aria-label="Terminals">
        {all?.map((t) => (
          <li key={t.id}>
            <button type="button" onClick={() => openPanel("terminal", { key: t.id, id: t.id }, terminalName(t))}>
              <Icon name="terminal" /><span className="row-title">{terminalName(t)}</span><span className="dim grow">{t.cwd}</span>
              <span className="dim">{t.state !== "running" ? t.state : t.started_at ? ago(t.started_at) : ""}</span>
            </button>
            <button type="button" className="button small danger" onClick={() => void end(t.id)}>End</button>
          </li>
        ))}
      </ul>
    </View>
  );
}

// ---- environment -------------------------------------------------------------------------------------

interface Shell {
  shell: string;
  project?: string;
  type?: string;
  pid?: number;
  generation?: number;
  duration_ms?: number;
  changed_files?: string[];
  error?: string;
}
const envTone: Record<string, string> = { "env.failed": "error", "env.applied": "ok", "env.ready": "ok", "env.building": "warning" };
const envWord = (type: string | undefined): string => (type ?? "").replace(/^env\./, "") || "known";

function Command({ text: command }: { text: string }) {
  return <span className="command"><code>{command}</code><CopyButton text={command} label={`Copy ${command}`} /></span>;
}

/** What the chosen session's commands run in. */
function SessionEnvironment({ id }: { id: string }) {
  const { env } = useConversation(id);
  const row = findSession(id);
  const trust = /not trusted/.test(env?.error ?? "");
  return (
    <section className="card" aria-label="Environment of this session">
      <h3>{row ? sessionTitle(row) : "This session"} <span className={`chip ${env ? envTone[env.type] ?? "" : ""}`}>{env ? envWord(env.type) : "as it was started"}</span></h3>
      {!env && <p className="dim">Commands run in the environment that the session was started with. A project with <code>.afloat/env.toml</code>, <code>.envrc</code>, <code>devenv.nix</code>, <code>flake.nix</code> or <code>mise.toml</code> gives them its own.</p>}
      {env && (
        <dl className="facts">
          {env.project && <><dt>Project</dt><dd><code>{env.project}</code></dd></>}
          {env.generation !== null && <><dt>Generation</dt><dd>{env.generation}{env.durationMs !== null ? `, ${duration(env.durationMs)}` : ""}</dd></>}
          {(["added", "changed", "removed"] as const).map((k) => env[k].length > 0 && <div key={k} className="contents"><dt>{k}</dt><dd className="mono">{env[k].join(" ")}</dd></div>)}
          <dt>Told</dt><dd>{ago(env.ts)}</dd>
        </dl>
      )}
      {env?.error && <pre className="tool-error" tabIndex={0}>{env.error.trim()}</pre>}
      {trust && <p>Look at the project's files, then type in its directory: <Command text="afloat env allow" /></p>}
    </section>
  );
}

export function EnvironmentView() {
  const id = useStore(currentSession);
  const shown = useLoad(() => call("env.show", {}), []);
  useEffect(() => onEvent("env.*", shown.again), []);
  const shells = (shown.data?.shells ?? []) as Shell[];
  return (
    <View title="Environment" actions={<button type="button" className="button" onClick={shown.again}><Icon name="reload" /> Look again</button>}>
      {id && <SessionEnvironment id={id} />}
      <h3>Shells</h3>
      <Failed error={shown.error} />
      {shells.length === 0 && shown.data && <Empty icon="leaf" title="No shell runs"><Command text="afloat shell" /> in a project: its environment reloads when a file that it depends on is saved.</Empty>}
      {shells.map((s) => (
        <section key={s.shell} className="card" aria-label={`Shell ${s.shell}`}>
          <h3>{s.project ?? s.shell} <span className={`chip ${envTone[s.type ?? ""] ?? ""}`}>{envWord(s.type)}</span></h3>
          <dl className="facts">
            <dt>Process</dt><dd>{s.pid}</dd>
            {s.generation !== undefined && <><dt>Generation</dt><dd>{s.generation}{s.duration_ms !== undefined ? `, ${duration(s.duration_ms)}` : ""}</dd></>}
            {s.changed_files && s.changed_files.length > 0 && <><dt>Changed</dt><dd className="mono">{s.changed_files.join(" ")}</dd></>}
          </dl>
          {s.error && <pre className="tool-error" tabIndex={0}>{s.error.trim()}</pre>}
        </section>
      ))}
    </View>
  );
}

// ---- events and logs ---------------------------------------------------------------------------------

const KEPT = 500;
const say: Record<string, (e: HubEvent) => string> = {
  "tool.called": (e) => `${text(e.tool)} ${JSON.stringify(e.input ?? {})}`,
  "tool.completed": (e) => `${text(e.tool)} ${e.success ? "done" : `failed: ${text(e.error)}`}${typeof e.duration_ms === "number" ? `, ${duration(e.duration_ms)}` : ""}`,
  "message.completed": (e) => `${text(e.role)}: ${text(e.text)}`,
  "turn.started": (e) => text(e.text),
  "turn.completed": (e) => text(e.text),
  "turn.failed": (e) => (e.error as { message?: string } | undefined)?.message ?? "",
  "generation.committed": (e) => `${String(e.generation)} by ${text(e.trigger)}${(["added", "changed", "removed"] as const).map((k) => (Array.isArray(e[k]) && e[k].length > 0 ? `, ${e[k].length} ${k}` : "")).join("")}`,
  "files.changed": (e) => `${text(e.dir)} ${Array.isArray(e.names) ? e.names.join(" ") : ""}`,
  "usage.updated": (e) => usageText(e.usage as Usage | null),
  "permission.requested": (e) => (e.call as { tool_name?: string } | undefined)?.tool_name ?? "",
  "plugin.error": (e) => `${text(e.plugin)}: ${text(e.message)}`,
};

/** The event in a line: what matters of it, else its fields. */
function summary(e: HubEvent): string {
  const { id: _i, type, ts: _t, session: _s, seq: _q, turn: _u, step: _p, ...rest } = e;
  const made = say[type]?.(e);
  return made ?? Object.entries(rest).map(([k, v]) => `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`).join(" ");
}

function EventLine({ e }: { e: HubEvent }) {
  const [open, setOpen] = useState(false);
  const row = e.session ? findSession(e.session) : undefined;
  return (
    <li className={/failed|error/.test(e.type) ? "event error" : "event"}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        <time>{clock(e.ts)}</time><span className="level">{e.type}</span><span className="event-text">{summary(e)}</span>{row && <span className="chip">{sessionTitle(row).slice(0, 24)}</span>}
      </button>
      {open && <pre className="answer" tabIndex={0}>{JSON.stringify(e, null, 2)}</pre>}
    </li>
  );
}

/** The log as it is written: what there was, then the events `log`. */
function useLog(): { lines: LogLine[]; error: string | null } {
  const first = useLoad(() => call("logs", { limit: 300 }), []);
  const [more, setMore] = useState<LogLine[]>([]);
  useEffect(() => { setMore([]); }, [first.data]);
  useEffect(() => onEvent("log", (e) => setMore((old) => [...old, { ts: e.ts, level: text(e.level), component: text(e.component), text: text(e.text) }].slice(-KEPT))), []);
  return { lines: [...(first.data?.lines ?? []), ...more].slice(-KEPT), error: first.error };
}

export function EventsView() {
  const [tab, setTab] = useState<"events" | "log">("events");
  const [events, setEvents] = useState<HubEvent[]>(() => recentEvents());
  const [filter, setFilter] = useState("");
  const [still, setStill] = useState(false);
  const paused = useRef(still);
  paused.current = still;
  const log = useLog();
  useEffect(() => {
    let fresh: HubEvent[] = [];
    let timer = 0;
    let on = true;
    pastEvents().then((old) => on && setEvents((now) => [...old, ...now]), () => undefined);
    const end = onEvent("*", (e) => {
      if (paused.current || e.type === "message.delta") return;
      fresh.push(e);
      timer ||= window.setTimeout(() => { timer = 0; const add = fresh; fresh = []; setEvents((old) => [...old, ...add].slice(-KEPT)); }, 100);
    });
    return () => { on = false; end(); clearTimeout(timer); };
  }, []);
  const q = filter.toLowerCase();
  const shown = events.filter((e) => e.type !== "log" && (q === "" || JSON.stringify(e).toLowerCase().includes(q)));
  const lines = log.lines.filter((l) => q === "" || `${l.level} ${l.component} ${l.text}`.toLowerCase().includes(q));
  return (
    <View title="Events and logs" actions={
      <>
        <input type="search" aria-label="Filter events" placeholder="Filter" value={filter} onChange={(e) => setFilter(e.target.value)} />
        {tab === "events" && <button type="button" className="button" aria-pressed={still} onClick={() => setStill(!still)}>{still ? "Continue" : "Pause"}</button>}
        {tab === "events" && <button type="button" className="button" onClick={() => setEvents([])}>Clear</button>}
      </>
    }>
      <Segments label="What to show" value={tab} all={[["events", "Events"], ["log", "Log"]]} onChange={setTab} />
      {tab === "events" ? (
        <>
          {shown.length === 0 && <Empty icon="activity" title={q ? "No event matches" : "Nothing has happened yet"}>Events show up here as they happen, the newest first.</Empty>}
          <ol className="events" aria-label="Events">{[...shown].reverse().map((e) => <EventLine key={e.id} e={e} />)}</ol>
        </>
      ) : (
        <><Failed error={log.error} />{lines.length > 0 ? <Lines lines={[...lines].reverse()} /> : <Empty icon="file" title={q ? "No line matches" : "The log is empty"} />}</>
      )}
    </View>
  );
}

// ---- settings ----------------------------------------------------------------------------------------

const shownValue = (v: unknown): string => (v === "" ? '""' : typeof v === "string" ? v : JSON.stringify(v).replaceAll('","', '", "')); // a list wraps between its items

/** Where a value comes from: the line of a file opens in the editor. */
function Origin({ of: { key, origin, path, line } }: { of: ConfigValue }) {
  if (origin === "default") return <span className="dim">default</span>;
  if (!path) return <span className="chip ok">{origin}</span>;
  return <button type="button" className="chip ok" aria-label={`${origin}: open ${key}`} title={line ? `${path}:${line}` : path} onClick={() => openPath(path, line)}>{origin}</button>;
}

export function SettingsView() {
  const config = useLoad(() => call("config.show", {}), []);
  const features = useLoad(() => call("feature.list", {}), []);
  const rules = useLoad(() => call("permission.list", {}), []);
  const checks = useLoad(() => call("doctor", {}), []);
  const tools = useLoad(() => call("tool.list", {}), []);
  const info = useStore(hubInfo);
  const look = useStore(theme);
  const [filter, setFilter] = useState("");
  const [own, setOwn] = useState(false);
  useEffect(() => onEvent("config.changed", config.again), []);
  useEffect(() => onEvent("tools.changed", tools.again), []);
  const q = filter.toLowerCase();
  const has = (...words: string[]) => words.join(" ").toLowerCase().includes(q);
  const values = config.data?.values.filter((v: ConfigValue) => has(v.key) && (!own || v.origin !== "default")) ?? [];
  const toolRows = tools.data?.tools.filter((t) => has(t.name, t.description)) ?? [];
  return (
    <View title="Settings" sub={info ? `version ${info.version}` : undefined} actions={<input type="search" aria-label="Filter settings" placeholder="Filter" value={filter} onChange={(e) => setFilter(e.target.value)} />}>
      {has("appearance theme") && <section><h3>Appearance</h3>
        <Segments label="Theme" value={look} all={[["system", "System"], ["light", "Light"], ["dark", "Dark"]] as const} onChange={(t) => theme.set(t as Theme)} />
      </section>}
      <section><h3>config.toml <span className="grow" /><label className="check small"><input type="checkbox" checked={own} onChange={(e) => setOwn(e.target.checked)} /> only what is set</label></h3>
        <p className="dim">Effective values and where each comes from. Edit <code>~/.afloat/config.toml</code>; a save takes effect at once.</p>
        <Failed error={config.error} />
        <Diagnostics list={config.data?.diagnostics ?? []} />
        <Table label="settings" heads={["Key", "Value", "Origin"]}>
          {values.map((v) => <tr key={v.key}><td className="key"><code>{v.key}</code></td><td className="mono wide">{shownValue(v.value)}</td><td className="key"><Origin of={v} /></td></tr>)}
        </Table>
        {values.length === 0 && config.data && <p className="dim">No setting matches.</p>}
      </section>
      <section><h3>Features</h3>
        {features.data?.features.filter((f) => has(f.name, f.description)).map((f) => (
          <label key={f.name} className="check"><input type="checkbox" checked={f.enabled} onChange={() => void attempt(call(f.enabled ? "feature.disable" : "feature.enable", { name: f.name })).then(features.again)} /> <span><strong>{f.name}</strong> <span className="dim">{f.description} ({f.stage})</span></span></label>
        ))}
      </section>
      <section><h3>Tools</h3>
        <ul className="checks">{toolRows.map((t) => (
          <li key={`${t.plugin ?? ""}:${t.name}`}><label className="check" title={t.description}><input type="checkbox" checked={t.enabled} onChange={() => void attempt(call(t.enabled ? "tool.disable" : "tool.enable", { name: t.name })).then(tools.again)} /> <code>{t.name}</code> <span className="dim">{t.plugin ?? "built in"}</span></label></li>
        ))}</ul>
      </section>
      <section><h3>Permission rules</h3>
        {rules.data?.rules.length === 0 && <p className="dim">None. Answers that you let Afloat remember are listed here.</p>}
        <ul className="plain">{rules.data?.rules.map((r) => <li key={r.id} className="rule"><span className={`chip ${r.decision === "allow" ? "ok" : r.decision === "deny" ? "error" : "warning"}`}>{r.decision}</span> <code>{r.tool}</code> <span className="mono grow">{r.match}</span> <span className="dim">{r.scope}</span> <button type="button" className="icon-button" aria-label={`Forget the rule for ${r.tool}`} onClick={() => void attempt(call("permission.remove", { id: r.id }), "Forgotten").then(rules.again)}><Icon name="close" /></button></li>)}</ul>
      </section>
      <section><h3>Health</h3><ul className="plain">{checks.data?.checks.map((c) => <li key={c.name} className="rule"><span className={`chip ${c.status}`}>{c.status}</span> <span>{c.name}</span> <span className="dim grow">{c.detail}</span></li>)}</ul></section>
    </View>
  );
}

// ---- keys --------------------------------------------------------------------------------------------

const keys: [string, [string, string][]][] = [
  ["Everywhere", [
    ["Ctrl/Cmd K", "Command palette: every command, session, file and operation"],
    ["Ctrl/Cmd J", "New session"],
    ["Ctrl/Cmd B", "Show or hide the sidebar"],
    ["Alt ↑ / ↓", "Previous or next session"],
    ["F6", "Next part of the page: sidebar, conversation, message, dock"],
    ["/", "Write a message"],
    ["?", "This help"],
  ]],
  ["Message", [
    ["Enter", "Send; while a turn runs: steer it"],
    ["Alt Enter", "While a turn runs: queue; else: new line"],
    ["Shift Enter", "New line"],
    ["↑ / ↓", "What you said before, in an empty message"],
    ["Esc", "Stop the turn; close what is open"],
  ]],
  ["Questions", [["1–5", "Allow, or choose an answer (with Alt while you type)"], ["D", "Deny"]]],
  ["Files", [["@", "Mention the file in the message"], ["F2", "Rename in the tree"], ["Delete", "Delete in the tree, after a question"], ["Ctrl/Cmd S", "Save"], ["Ctrl/Cmd F", "Find in the file"]]],
  ["Panels", [["← / →", "Choose a panel, on its tabs"], ["Delete", "Close it"], ["Ctrl/Cmd K, Panel", "Move, split, maximise"]]],
  ["Terminal", [["F6", "Leave the terminal"], ["Ctrl Shift K", "Command palette"]]],
];

export function HelpView() {
  const commands = useOutputs("commands").filter((c) => c.shortcut && c.owner !== "afloat");
  const groups: [string, [string, string][]][] = commands.length > 0 ? [...keys, ["Plugins", commands.map((c) => [c.shortcut!, `${c.title} (${c.owner})`])]] : keys;
  return (
    <View title="Keyboard">
      <div className="keys">
        {groups.map(([name, list]) => (
          <section key={name}><h3>{name}</h3><dl>{list.map(([k, v]) => <div key={k + v}><dt><kbd>{k}</kbd></dt><dd>{v}</dd></div>)}</dl></section>
        ))}
        <section><h3>Commands in a message</h3><dl>{slashes.map((s) => <div key={s.name}><dt><code>/{s.name}</code></dt><dd>{s.help}{s.takes ? <span className="dim"> {s.takes}</span> : null}</dd></div>)}</dl></section>
      </div>
      <p className="dim">The same things from a terminal: <code>afloat help</code>.</p>
    </View>
  );
}
