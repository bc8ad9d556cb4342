// The page's own panels that are mostly lists and forms. Loaded with the first one that is opened.
import { useCallback, useEffect, useRef, useState, type ReactNode } from "react";
import { Diff } from "../components/Diff";
import { Confirm } from "../components/Dialog";
import { Icon } from "../components/Icon";
import { useDir } from "../components/FileTree";
import { attempt, rename, setModel, setPermission, slashes } from "../lib/actions";
import type { Checkpoint, ConfigValue, Diagnostic, LogLine, PluginDetail, Report, Run, SessionRow } from "../lib/answers";
import { call, explain, Problem, request } from "../lib/client";
import { onEvent, recentEvents } from "../lib/events";
import { ago, clock, duration, usageText } from "../lib/format";
import type { HubEvent } from "../lib/hub";
import { plugins, refreshBots, refreshPlugins, refreshRuns, runs } from "../lib/lists";
import { useOutputs, type PanelProps } from "../lib/registry";
import { noteSession, sessions, sessionTitle } from "../lib/sessions";
import { useStore } from "../lib/store";
import { loadTerminals, newTerminal, terminalName, terminals } from "../lib/terminals";
import { currentSession, openPanel, theme, toast, type Theme } from "../lib/ui";

/** Load something, again when `again` is called or a dependency changes. */
function useLoad<T>(load: () => Promise<T>, deps: readonly unknown[]): { data: T | null; error: string | null; again(): void } {
  const [state, setState] = useState<{ data: T | null; error: string | null }>({ data: null, error: null });
  const [n, setN] = useState(0);
  useEffect(() => {
    let on = true;
    load().then((data) => on && setState({ data, error: null }), (e: unknown) => on && setState((s) => ({ ...s, error: explain(e) })));
    return () => { on = false; };
  }, [...deps, n]);
  return { ...state, again: useCallback(() => setN((x) => x + 1), []) };
}

function View({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <div className="view">
      <header className="view-head"><h2>{title}</h2><span className="grow" />{actions}</header>
      <div className="view-body" tabIndex={0} role="group" aria-label={title}>{children}</div>
    </div>
  );
}
const Failed = ({ error }: { error: string | null }) => (error ? <p className="tool-error" role="alert">{error}</p> : null);
const text = (v: unknown): string => (typeof v === "string" ? v : "");

// ---- plugins ------------------------------------------------------------------------------------

export function Diagnostics({ list }: { list: readonly Diagnostic[] }) {
  if (list.length === 0) return null;
  return (
    <ul className="diagnostics">
      {list.map((d, i) => (
        <li key={i} className={d.severity}>
          <code>{d.code}</code> {d.plugin && <strong>{d.plugin}</strong>} {d.source && d.source !== "server" && <span className="chip">{d.source}</span>} {d.message}
          {d.path && (
            <button type="button" className="link-button" onClick={() => openPath(d.path!, d.line ?? undefined)}>
              {d.path}{d.line ? `:${d.line}` : ""}
            </button>
          )}
          {d.hint && <p className="dim">{d.hint}</p>}
        </li>
      ))}
    </ul>
  );
}

/** Open a file by its absolute path in the editor. */
function openPath(path: string, line?: number): void {
  const at = path.lastIndexOf("/");
  openPanel("file", { key: path, dir: path.slice(0, at) || "/", path: path.slice(at + 1), line });
}

async function reloadAll(force: boolean): Promise<void> {
  const report = await attempt(call("reload", { force }));
  if (report) toast(report.ok ? `Generation ${report.generation}: ${report.changed.length} changed, ${report.added.length} added` : `Reload: ${report.failed.length} failed`, report.ok ? "success" : "error");
  refreshPlugins();
}

function ReportLine({ report }: { report: Report }) {
  const parts = ([["added", report.added], ["changed", report.changed], ["removed", report.removed], ["failed", report.failed]] as const).filter(([, l]) => l.length > 0);
  return (
    <p className="dim">
      Last reload: {report.trigger}, {(report.duration_us / 1000).toFixed(1)} ms, {parts.map(([w, l]) => `${l.length} ${w}`).join(", ") || "nothing changed"}, {report.kept} kept
    </p>
  );
}

export function PluginsView() {
  const { rows, report, generation } = useStore(plugins);
  const past = useLoad(() => call("generation.list", {}), [generation]);
  const undo = async () => {
    const done = await attempt(call("generation.undo", {}));
    if (done) toast(`Undone: generation ${done.generation} has the versions of before`, "success");
    refreshPlugins();
  };
  return (
    <View title="Plugins" actions={
      <>
        <button type="button" className="button" onClick={() => void undo()}><Icon name="undo" /> Undo</button>
        <button type="button" className="button primary" onClick={() => void reloadAll(false)}><Icon name="reload" /> Reload</button>
      </>
    }>
      {report && <ReportLine report={report} />}
      {report && <Diagnostics list={report.diagnostics} />}
      <div className="table" tabIndex={0} role="group" aria-label="plugins">
        <table className="grid">
          <thead><tr><th>Plugin</th><th>State</th><th>Revision</th><th>Generation</th><th>Layer</th><th>Contributes</th></tr></thead>
          <tbody>
            {rows.map((p) => (
              <tr key={p.name} data-plugin={p.name}>
                <td><button type="button" className="link-button" onClick={() => openPanel("plugin", { key: p.name, name: p.name })}>{p.name}</button>{p.error && <p className="tool-error">{p.error}</p>}</td>
                <td><span className={`chip state-${p.state}`}>{p.state}</span></td><td>{p.revision}</td><td>{p.generation}</td><td>{p.layer}</td>
                <td className="dim">{[[p.hooks, "hook"], [p.tools, "tool"], [p.routes, "route"], [p.commands, "command"]].map(([l, w]) => [(l as unknown[] | null)?.length ?? 0, w] as const).filter(([n]) => n > 0).map(([n, w]) => `${n} ${w}${n === 1 ? "" : "s"}`).join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p className="dim">No plugins yet. <code>afloat plugin new NAME</code> makes one; saving its file makes it live.</p>}
      <h3>Generations</h3>
      <ul className="plain">
        {past.data?.generations.slice(0, 20).map((g) => (
          <li key={g.generation}><strong>{g.generation}</strong>{g.generation === past.data?.current ? " (now)" : ""} <span className="dim">{ago(g.at)}, {g.trigger}</span> {[...g.added.map((n) => `+${n}`), ...g.changed.map((n) => `~${n}`), ...g.removed.map((n) => `−${n}`)].filter((n) => !n.startsWith("+lua:")).slice(0, 8).join(" ")}</li>
        ))}
      </ul>
    </View>
  );
}

export function PluginView({ params, setTitle }: PanelProps) {
  const name = text(params.name);
  const row = useStore(plugins, (p) => p.rows.find((r) => r.name === name));
  const shown = useLoad<PluginDetail>(() => call("plugin.show", { name }), [name, row?.revision, row?.state]);
  const logs = useLoad(() => call("plugin.logs", { name }), [name, row?.revision]);
  useEffect(() => setTitle(name), [name]);
  const p = shown.data;
  const act = async (what: "plugin.enable" | "plugin.disable" | "plugin.reload", done: string) => {
    await attempt(call(what, { name }), done);
    refreshPlugins();
    shown.again();
  };
  return (
    <View title={name} actions={p && (
      <>
        <button type="button" className="button" onClick={() => void act(p.state === "disabled" ? "plugin.enable" : "plugin.disable", p.state === "disabled" ? "Enabled" : "Disabled")}>{p.state === "disabled" ? "Enable" : "Disable"}</button>
        <button type="button" className="button primary" onClick={() => void act("plugin.reload", "Reloaded")}><Icon name="reload" /> Reload</button>
      </>
    )}>
      <Failed error={shown.error} />
      {p && (
        <>
          <dl className="facts">
            <dt>State</dt><dd><span className={`chip state-${p.state}`}>{p.state}</span> {p.serving ? "serving" : "not serving"}</dd>
            <dt>Revision</dt><dd>{p.revision}, generation {p.generation}</dd>
            <dt>Host</dt><dd>{p.host}, layer {p.layer}</dd>
            {p.path && <><dt>File</dt><dd><button type="button" className="link-button" onClick={() => openPath(p.path!)}>{p.path}</button></dd></>}
            {p.hooks?.length > 0 && <><dt>Hooks</dt><dd>{p.hooks.map((h) => (typeof h === "string" ? h : JSON.stringify(h))).join(", ")}</dd></>}
            {p.tools?.length > 0 && <><dt>Tools</dt><dd>{p.tools.map((t) => (typeof t === "string" ? t : JSON.stringify(t))).join(", ")}</dd></>}
          </dl>
          {p.error && <p className="tool-error">{p.error}</p>}
          {p.front_error && <p className="tool-error">{p.front_error}</p>}
          <Diagnostics list={p.diagnostics ?? []} />
          {p.outputs && p.outputs.length > 0 && (
            <><h3>Outputs</h3><ul className="plain">{p.outputs.map((o, i) => <li key={i}><code>{o.kind}</code> {o.name} <span className="dim">{o.needs ? `needs ${o.needs}` : "swaps live"}</span></li>)}</ul></>
          )}
          {p.stats !== undefined && <details><summary>Timing</summary><pre tabIndex={0}>{JSON.stringify(p.stats, null, 2)}</pre></details>}
          {p.content && <details><summary>Code</summary><pre tabIndex={0}>{p.content}</pre></details>}
          {logs.data && logs.data.lines.length > 0 && <><h3>Log</h3><Lines lines={logs.data.lines} /></>}
        </>
      )}
    </View>
  );
}

const Lines = ({ lines }: { lines: readonly LogLine[] }) => (
  <ol className="lines" tabIndex={0}>{lines.map((l, i) => <li key={i} className={l.level}><time>{l.ts ? clock(l.ts) : ""}</time> <span className="level">{l.level}</span> {l.component && <span className="dim">{l.component}</span>} {l.text}</li>)}</ol>
);

// ---- bots and runs ------------------------------------------------------------------------------

export function BotView({ params, setTitle, close }: PanelProps) {
  const name = text(params.bot);
  const dir = useDir();
  const shown = useLoad(() => (name ? call("bot.show", { bot: name }) : Promise.resolve(null)), [name]);
  const memory = useLoad(() => (name && dir ? call("memory.list", { bot: name, working_dir: dir }) : Promise.resolve(null)), [name, dir]);
  const past = useLoad(() => (name && dir ? call("history.list", { bot: name, working_dir: dir, limit: 20 }) : Promise.resolve(null)), [name, dir]);
  const done = useStore(runs).filter((r) => r.bot === name);
  const [asking, setAsking] = useState(false);
  useEffect(() => setTitle(name || "New bot"), [name]);
  const save = async (f: FormData) => {
    const fields = { description: text(f.get("description")), instructions: text(f.get("instructions")) };
    if (name) await attempt(call("bot.patch", { bot: name, ...fields }), "Saved");
    else if (await attempt(call("bot.create", { name: text(f.get("name")).trim(), ...fields }), "Created")) {
      openPanel("bot", { key: text(f.get("name")).trim(), bot: text(f.get("name")).trim() });
      close();
    }
    refreshBots();
    shown.again();
  };
  const start = async (f: FormData) => {
    const run = await attempt(call("run.start", { bot: name, prompt: text(f.get("prompt")) || undefined, working_dir: text(f.get("dir")), iterations: Number(f.get("iterations")) || 1 }));
    if (run) { refreshRuns(); openPanel("run", { key: run.run_id, run: run.run_id }); }
  };
  return (
    <View title={name || "New bot"} actions={name && <button type="button" className="button danger" onClick={() => setAsking(true)}>Delete</button>}>
      <Failed error={shown.error} />
      {name && (
        <form className="operation card" onSubmit={(e) => { e.preventDefault(); void start(new FormData(e.currentTarget)); }}>
          <h3>Run</h3>
          <label><span>Task</span><textarea name="prompt" rows={2} placeholder="What it should do" /></label>
          <div className="two">
            <label><span>Directory</span><input key={dir} name="dir" required defaultValue={dir ?? ""} spellCheck={false} /></label>
            <label><span>Iterations</span><input name="iterations" type="number" min={1} max={100} defaultValue={1} /></label>
          </div>
          <div className="dialog-foot"><button type="submit" className="button primary"><Icon name="play" /> Run</button></div>
        </form>
      )}
      {(!name || shown.data) && (
        <form key={JSON.stringify(shown.data)} className="operation card" onSubmit={(e) => { e.preventDefault(); void save(new FormData(e.currentTarget)); }}>
          <h3>{name ? "Instructions" : "A new bot"}</h3>
          {!name && <label><span>Name</span><input name="name" required pattern="[a-z0-9][a-z0-9_\-]*" title="small letters, digits, - and _" /></label>}
          <label><span>Description</span><input name="description" defaultValue={text(shown.data?.description)} /></label>
          <label><span>Instructions</span><textarea name="instructions" rows={8} defaultValue={text(shown.data?.instructions)} /></label>
          <div className="dialog-foot"><button type="submit" className="button primary">{name ? "Save" : "Create"}</button></div>
        </form>
      )}
      {shown.data?.diagnostics && <Diagnostics list={shown.data.diagnostics} />}
      {memory.data && (
        <><h3>Memory <span className="dim">of {memory.data.project}</span></h3>
          {Object.keys(memory.data.entries).length === 0 ? <p className="dim">Nothing remembered yet.</p> : (
            <dl className="facts">{Object.entries(memory.data.entries).map(([k, v]) => <div key={k} className="contents"><dt>{k}</dt><dd>{typeof v === "string" ? v : JSON.stringify(v)} <button type="button" className="icon-button" aria-label={`Forget ${k}`} onClick={() => void attempt(call("memory.remove", { bot: name, key: k, working_dir: dir ?? undefined })).then(memory.again)}><Icon name="close" /></button></dd></div>)}</dl>
          )}</>
      )}
      {Array.isArray(shown.data?.skills) && shown.data.skills.length > 0 && <><h3>Skills</h3><ul className="plain">{shown.data.skills.map((s, i) => <li key={i}>{text((s as { name?: string }).name) || JSON.stringify(s)}</li>)}</ul></>}
      {done.length > 0 && <><h3>Runs</h3><ul className="plain">{done.map((r) => <li key={r.run_id}><button type="button" className="link-button" onClick={() => openPanel("run", { key: r.run_id, run: r.run_id })}>{r.prompt ?? r.run_id}</button> <span className="dim">{ago(r.started_at)}, {r.action ?? r.state}</span></li>)}</ul></>}
      {past.data && past.data.sessions.length > 0 && (
        <><h3>History <span className="dim">of {past.data.project}</span></h3>
          <ul className="plain">{past.data.sessions.map((h) => <li key={h.session_id}><button type="button" className="link-button" onClick={() => currentSession.set(h.session_id)}>Session {h.session_number}</button> <span className="dim">{ago(h.started_at)}, {h.end_reason ?? "running"}</span> {h.response_summary}</li>)}</ul></>
      )}
      {asking && <Confirm title={`Delete ${name}?`} text="The bot goes to the trash. Its history stays." action="Delete" onClose={() => setAsking(false)} onYes={() => void attempt(call("bot.delete", { bot: name }), "Deleted").then(() => { refreshBots(); close(); })} />}
    </View>
  );
}

export function RunView({ params, setTitle }: PanelProps) {
  const id = text(params.run);
  const listed = useStore(runs, (all) => all.find((r) => r.run_id === id));
  const shown = useLoad<Run>(() => call("run.show", { id }), [id, listed]);
  const over = (listed ?? null)?.state === "ended";
  const diff = useLoad(() => (over ? call("run.diff", { id }) : Promise.resolve(null)), [id, over]);
  const [asking, setAsking] = useState<"apply" | "merge" | "discard" | null>(null);
  const run = shown.data;
  useEffect(() => setTitle(run ? `${run.bot} run` : id), [run?.bot]);
  const act = async (op: "run.apply" | "run.merge" | "run.discard" | "run.stop", done: string) => {
    await attempt(call(op, { id }), done);
    refreshRuns();
    shown.again();
    diff.again();
  };
  const settled = run && (run.merged_at || run.discarded_at);
  const words = {
    apply: ["Apply these changes?", "They are put on your working tree, uncommitted.", "Apply"],
    merge: ["Merge this run?", "Its commits are merged into the branch that is checked out.", "Merge"],
    discard: ["Discard this run?", "It is marked as not wanted. Its branch stays.", "Discard"],
  } as const;
  return (
    <View title={run ? `${run.bot}: ${run.prompt ?? run.run_id}` : id} actions={run && (
      <>
        {run.session_id && <button type="button" className="button" onClick={() => currentSession.set(run.session_id)}><Icon name="chat" /> Conversation</button>}
        {run.state === "running" ? <button type="button" className="button stop" onClick={() => void act("run.stop", "Stopping")}><Icon name="stop" /> Stop</button> : !settled && (
          <>
            <button type="button" className="button" onClick={() => setAsking("discard")}>Discard</button>
            <button type="button" className="button" onClick={() => setAsking("apply")}>Apply</button>
            <button type="button" className="button primary" onClick={() => setAsking("merge")}><Icon name="merge" /> Merge</button>
          </>
        )}
      </>
    )}>
      <Failed error={shown.error} />
      {run && (
        <dl className="facts">
          <dt>State</dt><dd><span className="chip">{run.state}</span> {run.end_reason ?? ""} {run.merged_at ? "merged" : run.applied_at ? "applied" : run.discarded_at ? "discarded" : ""}</dd>
          {run.branch && <><dt>Branch</dt><dd><code>{run.branch}</code></dd></>}
          <dt>Began</dt><dd>{ago(run.started_at)}{run.ended_at ? `, took ${duration(Date.parse(run.ended_at) - Date.parse(run.started_at))}` : ""}</dd>
          {run.summary && <><dt>Summary</dt><dd>{run.summary}</dd></>}
        </dl>
      )}
      {run?.error && <p className="tool-error">{run.error}</p>}
      {diff.data && (diff.data.patch ? <><p className="dim">{diff.data.files.length} file{diff.data.files.length === 1 ? "" : "s"}, <ins>+{diff.data.added}</ins> <del>−{diff.data.removed}</del></p><Diff diff={diff.data.patch} /></> : <p className="dim">No changes.</p>)}
      {asking && <Confirm title={words[asking][0]} text={words[asking][1]} action={words[asking][2]} onClose={() => setAsking(null)} onYes={() => void act(`run.${asking}`, { apply: "Applied", merge: "Merged", discard: "Discarded" }[asking])} />}
    </View>
  );
}

// ---- sessions -----------------------------------------------------------------------------------

export function SessionView({ params, setTitle }: PanelProps) {
  const id = text(params.session);
  const row = useStore(sessions, (s) => s.rows.find((r) => r.id === id));
  const providers = useLoad(() => call("provider.list", {}), []);
  const models = useLoad(() => (row ? call("provider.models", { name: row.provider, session: id }).catch(() => ({ models: [] })) : Promise.resolve({ models: [] })), [row?.provider]);
  useEffect(() => setTitle("Session"), []);
  if (!row) return <View title="Session"><p className="dim">There is no session {id}.</p></View>;
  const patch = (fields: Partial<SessionRow>) => void attempt(call("session.patch", { id, ...fields } as Parameters<typeof call<"session.patch">>[1]).then(noteSession), "Changed");
  return (
    <View title="Session">
      <form key={id} className="operation" onSubmit={(e) => e.preventDefault()}>
        <label><span>Title</span><input defaultValue={row.title ?? ""} placeholder={sessionTitle(row)} onBlur={(e) => { if (e.target.value !== (row.title ?? "")) void rename(id, e.target.value); }} /></label>
        <div className="two">
          <label><span>Provider</span>
            <select value={row.provider} onChange={(e) => patch({ provider: e.target.value })}>
              {(providers.data?.providers ?? [{ name: row.provider, has_key: true }]).map((p) => <option key={p.name} value={p.name}>{p.name}{p.has_key ? "" : " (no key)"}</option>)}
            </select>
          </label>
          <label><span>Model</span>
            <input key={row.model} defaultValue={row.model} list="models" spellCheck={false} onBlur={(e) => { if (e.target.value && e.target.value !== row.model) void setModel(id, undefined, e.target.value); }} />
            <datalist id="models">{models.data?.models.map((m) => { const n = typeof m === "string" ? m : m.id; return <option key={n} value={n} />; })}</datalist>
          </label>
          <label><span>Permission</span>
            <select value={row.permission} onChange={(e) => void setPermission(id, e.target.value)}>{["ask", "edits", "plan", "auto", "deny"].map((p) => <option key={p}>{p}</option>)}</select>
          </label>
          <label><span>Sandbox</span>
            <select value={row.sandbox} onChange={(e) => patch({ sandbox: e.target.value })}>{["read-only", "workspace-write", "danger-full-access"].map((p) => <option key={p}>{p}</option>)}</select>
          </label>
        </div>
        <label className="check"><input type="checkbox" checked={row.network} onChange={(e) => patch({ network: e.target.checked })} /> Commands may use the network</label>
      </form>
      <dl className="facts">
        <dt>Directory</dt><dd><code>{row.worktree ?? row.working_dir}</code></dd>
        <dt>Usage</dt><dd>{usageText(row.usage) || "none yet"}{row.usage.cost_usd === null ? ", cost unknown" : ""}</dd>
        <dt>Turns</dt><dd>{row.turns}</dd>
        <dt>Began</dt><dd>{ago(row.started_at)}</dd>
        <dt>Id</dt><dd><code>{row.id}</code></dd>
        {row.instructions.length > 0 && <><dt>Instructions</dt><dd>{row.instructions.map((i) => <div key={i}><button type="button" className="link-button" onClick={() => openPath(i)}>{i}</button></div>)}</dd></>}
      </dl>
    </View>
  );
}

export function RewindView({ params, setTitle }: PanelProps) {
  const id = text(params.session);
  const row = useStore(sessions, (s) => s.rows.find((r) => r.id === id));
  const points = useLoad(() => call("session.checkpoints", { id }), [id, row?.last_seq]);
  const [chosen, setChosen] = useState<string>(text(params.to));
  const [what, setWhat] = useState<"both" | "files" | "conversation">("both");
  const [plan, setPlan] = useState<{ restored: string[]; deleted: string[]; conflicts: string[] } | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => setTitle("Rewind"), []);
  useEffect(() => setChosen(text(params.to)), [params.to]);
  const parts = { files: what !== "conversation", conversation: what !== "files" };
  useEffect(() => {
    let on = true;
    setPlan(null);
    setError(null);
    if (chosen) call("session.rewind", { id, to: chosen, ...parts, dry_run: true }).then((p) => on && setPlan(p), (e: unknown) => on && setError(explain(e)));
    return () => { on = false; };
  }, [id, chosen, what, row?.last_seq]);
  const go = async (force: boolean) => {
    try {
      const done = await call("session.rewind", { id, to: chosen, ...parts, force });
      toast(`Rewound: ${done.restored.length} restored, ${done.deleted.length} deleted`, "success");
      setChosen("");
      points.again();
    } catch (e) {
      setError(e instanceof Problem && e.code === "CONFLICT" ? `${e.message}. Rewinding anyway overwrites them; they are kept.` : explain(e));
    }
  };
  const list = points.data?.checkpoints ?? [];
  return (
    <View title="Rewind">
      <p className="dim">Go back to the state before a turn. Every rewind is listed too: rewinding to it undoes it.</p>
      <Failed error={points.error} />
      <ul className="points" aria-label="Checkpoints">
        {[...list].reverse().map((c: Checkpoint) => (
          <li key={c.turn}><label className={c.turn === chosen ? "point chosen" : "point"}>
            <input type="radio" name="point" checked={c.turn === chosen} onChange={() => setChosen(c.turn)} />
            <span className="point-text">{c.text || c.turn}</span>
            <span className="dim">{ago(c.at)}{Array.isArray(c.files) && c.files.length > 0 ? `, ${c.files.length} file${c.files.length === 1 ? "" : "s"}` : ""}</span>
          </label></li>
        ))}
      </ul>
      {list.length === 0 && !points.error && <p className="dim">No turn yet.</p>}
      {chosen && (
        <div className="card">
          <div className="choices" role="group" aria-label="What to bring back">
            {(["both", "files", "conversation"] as const).map((w) => <button key={w} type="button" className={w === what ? "button primary" : "button"} aria-pressed={w === what} onClick={() => setWhat(w)}>{w === "both" ? "Files and conversation" : w === "files" ? "Files" : "Conversation"}</button>)}
          </div>
          {plan && what !== "conversation" && (
            <ul className="plain mono">
              {plan.restored.map((f) => <li key={f}>restore {f}</li>)}{plan.deleted.map((f) => <li key={f}>delete {f}</li>)}
              {plan.conflicts.map((f, i) => <li key={i} className="tool-error">changed since: {typeof f === "string" ? f : JSON.stringify(f)}</li>)}
              {plan.restored.length + plan.deleted.length + plan.conflicts.length === 0 && <li className="dim">no files change</li>}
            </ul>
          )}
          <Failed error={error} />
          <div className="dialog-foot">
            {((plan?.conflicts.length ?? 0) > 0 || error) && <button type="button" className="button danger" onClick={() => void go(true)}>Rewind anyway</button>}
            <button type="button" className="button primary" disabled={(plan?.conflicts.length ?? 0) > 0} onClick={() => void go(false)}><Icon name="undo" /> Rewind</button>
          </div>
        </div>
      )}
    </View>
  );
}

// ---- terminals ----------------------------------------------------------------------------------

export function TerminalsView() {
  const dir = useDir();
  const all = useStore(terminals);
  const shown = useLoad(loadTerminals, []);
  const end = (id: string) => attempt(request("DELETE", `/pty/${encodeURIComponent(id)}`), "Ended");
  return (
    <View title="Terminals" actions={<button type="button" className="button primary" onClick={() => void attempt(newTerminal(dir))}><Icon name="plus" /> New terminal</button>}>
      <p className="dim">A terminal goes on when the page is closed and when the hub restarts.</p>
      <Failed error={shown.error} />
      {all?.length === 0 && <p className="dim">None is open.</p>}
      <ul className="plain">
        {all?.map((t) => (
          <li key={t.id} className="terminal-row">
            <Icon name="terminal" /><button type="button" className="link-button" onClick={() => openPanel("terminal", { key: t.id, id: t.id }, terminalName(t))}>{terminalName(t)}</button>
            <span className="dim grow">{t.cwd} {t.state !== "running" && t.state} {t.started_at ? ago(t.started_at) : ""}</span>
            <button type="button" className="button danger" onClick={() => void end(t.id)}>End</button>
          </li>
        ))}
      </ul>
    </View>
  );
}

// ---- the hub ------------------------------------------------------------------------------------

export function EnvironmentView() {
  const dir = useDir();
  const shown = useLoad(() => call("env.show", {}), [dir]);
  useEffect(() => onEvent("env.*", shown.again), []);
  const shells = (shown.data?.shells ?? []) as Record<string, unknown>[];
  return (
    <View title="Environment" actions={<button type="button" className="button" onClick={shown.again}><Icon name="reload" /> Look again</button>}>
      <p className="dim">Shells started with <code>afloat shell</code> reload their environment when a file they depend on is saved. They show up here.</p>
      <Failed error={shown.error} />
      {shells.length === 0 && shown.data && <div className="empty"><h3>No shell runs</h3><p>Type <code>afloat shell</code> in a project with <code>.afloat/env.toml</code>.</p></div>}
      {shells.map((s, i) => (
        <dl key={i} className="facts card">{Object.entries(s).map(([k, v]) => <div key={k} className="contents"><dt>{k}</dt><dd>{typeof v === "object" ? JSON.stringify(v) : String(v)}</dd></div>)}</dl>
      ))}
    </View>
  );
}

const KEPT = 500;

export function EventsView() {
  const [events, setEvents] = useState<HubEvent[]>(() => recentEvents());
  const [filter, setFilter] = useState("");
  const [still, setStill] = useState(false);
  const paused = useRef(still);
  paused.current = still;
  const logs = useLoad(() => call("logs", { limit: 200 }), []);
  useEffect(() => {
    let fresh: HubEvent[] = [];
    let timer = 0;
    const end = onEvent("*", (e) => {
      if (paused.current || e.type === "message.delta") return;
      fresh.push(e);
      timer ||= window.setTimeout(() => { timer = 0; const add = fresh; fresh = []; setEvents((old) => [...old, ...add].slice(-KEPT)); }, 100);
    });
    return () => { end(); clearTimeout(timer); };
  }, []);
  const shown = events.filter((e) => filter === "" || JSON.stringify(e).toLowerCase().includes(filter.toLowerCase()));
  return (
    <View title="Events and logs" actions={
      <>
        <input type="search" aria-label="Filter events" placeholder="Filter" value={filter} onChange={(e) => setFilter(e.target.value)} />
        <button type="button" className="button" aria-pressed={still} onClick={() => setStill(!still)}>{still ? "Continue" : "Pause"}</button>
        <button type="button" className="button" onClick={() => setEvents([])}>Clear</button>
      </>
    }>
      <h3>Events</h3>
      {shown.length === 0 && <p className="dim">Events show up here as they happen.</p>}
      <ol className="lines" tabIndex={0} aria-label="Events">
        {[...shown].reverse().map((e) => {
          const { id, type, ts, session, seq: _s, ...rest } = e;
          return <li key={id}><time>{clock(ts)}</time> <span className="level">{type}</span> {session && <span className="dim">{session}</span>} <span className="rest">{JSON.stringify(rest)}</span></li>;
        })}
      </ol>
      <h3>Log <button type="button" className="icon-button" aria-label="Read the log again" onClick={logs.again}><Icon name="reload" /></button></h3>
      {logs.data && <Lines lines={[...logs.data.lines].reverse()} />}
    </View>
  );
}

export function SettingsView() {
  const config = useLoad(() => call("config.show", {}), []);
  const features = useLoad(() => call("feature.list", {}), []);
  const rules = useLoad(() => call("permission.list", {}), []);
  const checks = useLoad(() => call("doctor", {}), []);
  const tools = useLoad(() => call("tool.list", {}), []);
  const look = useStore(theme);
  const [filter, setFilter] = useState("");
  useEffect(() => onEvent("config.changed", config.again), []);
  const q = filter.toLowerCase();
  return (
    <View title="Settings" actions={<input type="search" aria-label="Filter settings" placeholder="Filter" value={filter} onChange={(e) => setFilter(e.target.value)} />}>
      <section><h3>Appearance</h3>
        <div className="choices" role="group" aria-label="Theme">{(["system", "light", "dark"] as Theme[]).map((t) => <button key={t} type="button" className={t === look ? "button primary" : "button"} aria-pressed={t === look} onClick={() => theme.set(t)}>{t}</button>)}</div>
      </section>
      <section><h3>Features</h3>
        {features.data?.features.map((f) => (
          <label key={f.name} className="check"><input type="checkbox" checked={f.enabled} onChange={() => void attempt(call(f.enabled ? "feature.disable" : "feature.enable", { name: f.name })).then(features.again)} /> <strong>{f.name}</strong> <span className="dim">{f.description} ({f.stage})</span></label>
        ))}
      </section>
      <section><h3>Tools</h3>
        <ul className="plain">{tools.data?.tools.filter((t) => `${t.name} ${t.description}`.toLowerCase().includes(q)).map((t) => (
          <li key={`${t.plugin ?? ""}:${t.name}`}><label className="check"><input type="checkbox" checked={t.enabled} onChange={() => void attempt(call(t.enabled ? "tool.disable" : "tool.enable", { name: t.name })).then(tools.again)} /> <code>{t.name}</code> <span className="dim">{t.plugin ?? "built in"}</span></label></li>
        ))}</ul>
      </section>
      <section><h3>Permission rules</h3>
        {rules.data?.rules.length === 0 && <p className="dim">None. Answers that you let Afloat remember are listed here.</p>}
        <ul className="plain">{rules.data?.rules.map((r) => <li key={r.id}><span className="chip">{r.decision}</span> <code>{r.tool}</code> {r.match} <span className="dim">{r.scope}</span> <button type="button" className="icon-button" aria-label={`Forget the rule for ${r.tool}`} onClick={() => void attempt(call("permission.remove", { id: r.id }), "Forgotten").then(rules.again)}><Icon name="close" /></button></li>)}</ul>
      </section>
      <section><h3>config.toml</h3>
        <p className="dim">Effective values and where each comes from. Edit <code>~/.afloat/config.toml</code>; a save takes effect at once.</p>
        <Failed error={config.error} />
        <div className="table" tabIndex={0} role="group" aria-label="settings"><table className="grid">
          <thead><tr><th>Key</th><th>Value</th><th>Origin</th></tr></thead>
          <tbody>{config.data?.values.filter((v: ConfigValue) => v.key.toLowerCase().includes(q)).map((v) => <tr key={v.key}><td><code>{v.key}</code></td><td className="mono">{JSON.stringify(v.value)}</td><td className={v.origin === "default" ? "dim" : ""}>{v.origin}</td></tr>)}</tbody>
        </table></div>
      </section>
      <section><h3>Health</h3><ul className="plain">{checks.data?.checks.map((c) => <li key={c.name}><span className={`chip ${c.status}`}>{c.status}</span> {c.name} <span className="dim">{c.detail}</span></li>)}</ul></section>
    </View>
  );
}

const keys: [string, string][] = [
  ["Ctrl/Cmd + K", "Command palette: every command, session, file and operation"],
  ["Ctrl/Cmd + J", "New session"],
  ["Ctrl/Cmd + B", "Show or hide the sidebar"],
  ["Alt + ↑ / ↓", "Previous or next session"],
  ["Enter", "Send; while a turn runs: steer it"],
  ["Alt + Enter", "While a turn runs: queue; else: new line"],
  ["Shift + Enter", "New line"],
  ["↑ / ↓ in an empty message", "What you said before"],
  ["Esc", "Stop the turn; close what is open"],
  ["1–5, D", "Answer a permission question (with Alt while you type)"],
  ["/", "Write a message"],
  ["F6", "Next part of the page: sidebar, conversation, message, dock"],
  ["?", "This help"],
];

export function HelpView() {
  const commands = useOutputs("commands").filter((c) => c.shortcut && c.owner !== "afloat");
  return (
    <View title="Keyboard">
      <table className="grid"><tbody>{keys.map(([k, v]) => <tr key={k}><td><kbd>{k}</kbd></td><td>{v}</td></tr>)}{commands.map((c) => <tr key={c.key}><td><kbd>{c.shortcut}</kbd></td><td>{c.title} <span className="dim">{c.owner}</span></td></tr>)}</tbody></table>
      <h3>Commands in a message</h3>
      <table className="grid"><tbody>{slashes.map((s) => <tr key={s.name}><td><code>/{s.name}{s.takes ? ` ${s.takes}` : ""}</code></td><td>{s.help}</td></tr>)}</tbody></table>
      <p className="dim">The same things from a terminal: <code>afloat help</code>.</p>
    </View>
  );
}
