// Plugins: what serves, what is wrong with it and where, how long it takes, and the way back.
import { useEffect, useState } from "react";
import { Code } from "../components/Code";
import { Confirm } from "../components/Dialog";
import { Icon } from "../components/Icon";
import { Menu } from "../components/Menu";
import { attempt } from "../lib/actions";
import type { Diagnostic, LogLine, PluginDetail, PluginRow, Report } from "../lib/answers";
import { call } from "../lib/client";
import { onEvent } from "../lib/events";
import { ago, clock, languageOf, plural } from "../lib/format";
import { plugins, refreshPlugins } from "../lib/lists";
import type { PanelProps } from "../lib/registry";
import { useStore } from "../lib/store";
import { openPanel, toast } from "../lib/ui";
import { bytes, Empty, Failed, micros, openPath, PathLink, Table, text, useLoad, View } from "./parts";

const FEW = 5; // diagnostics that are shown at once: below them is the list of plugins

export function Diagnostics({ list }: { list: readonly Diagnostic[] }) {
  const [all, setAll] = useState(false);
  if (list.length === 0) return null;
  const shown = all || list.length <= FEW + 1 ? list : list.slice(0, FEW);
  return (
    <ul className="diagnostics" aria-label="Diagnostics">
      {shown.map((d, i) => (
        <li key={i} className={d.severity}>
          {d.code && <p className="diagnostic-head"><code>{d.code}</code>{d.plugin && <PluginLink name={d.plugin} />}{d.source && d.source !== "server" && <span className="chip">{d.source}</span>}</p>}
          <p>{d.message}</p>
          {d.path && <PathLink path={d.path} line={d.line} />}
          {d.hint && <p className="dim">{d.hint}</p>}
        </li>
      ))}
      {shown.length < list.length && <li className="rest"><button type="button" className="button" onClick={() => setAll(true)}>Show {list.length - shown.length} more</button></li>}
    </ul>
  );
}

const PluginLink = ({ name }: { name: string }) => <button type="button" className="link-button" title={name} onClick={() => openPanel("plugin", { key: name, name })}>{name}</button>;

async function reloadAll(): Promise<void> {
  const report = await attempt(call("reload", {}));
  if (report) toast(report.ok ? `Generation ${report.generation}: ${report.changed.length} changed, ${report.added.length} added` : `Reload: ${report.failed.length} failed`, report.ok ? "success" : "error");
  refreshPlugins();
}

type Act = "plugin.enable" | "plugin.disable" | "plugin.reload";
async function act(what: Act, name: string): Promise<void> {
  await attempt(call(what, { name }), { "plugin.enable": `${name} is enabled`, "plugin.disable": `${name} is disabled`, "plugin.reload": `${name} was loaded again` }[what]);
  refreshPlugins();
}

async function undo(to?: number): Promise<void> {
  const done = await attempt(call("generation.undo", { to }));
  if (done) toast(`Undone: generation ${done.generation} has the versions of ${to === undefined ? "before" : `generation ${to}`}`, "success");
  refreshPlugins();
}

function ReportLine({ report }: { report: Report }) {
  const parts = ([["added", report.added], ["changed", report.changed], ["removed", report.removed], ["failed", report.failed]] as const).filter(([, l]) => l.length > 0);
  return (
    <p className="summary">
      <span>Last reload</span> <span className="chip">{report.trigger}</span> <span>{micros(report.duration_us)}</span>
      {parts.map(([w, l]) => <span key={w} className={w === "failed" ? "chip error" : "chip ok"}>{l.length} {w}</span>)}
      <span className="dim">{report.kept} kept</span>
    </p>
  );
}

const contributes = (p: PluginRow): string =>
  ([[p.hooks, "hook"], [p.tools, "tool"], [p.routes, "route"], [p.commands, "command"]] as const)
    .map(([list, what]) => ((list?.length ?? 0) > 0 ? plural(list.length, what) : "")).filter(Boolean).join(", ");

function PluginLine({ p }: { p: PluginRow }) {
  const error = p.error ?? p.front_error;
  return (
    <>
      <tr data-plugin={p.name} className={error ? "with-more" : undefined}>
        <td><PluginLink name={p.name} /></td>
        <td><span className={`chip state-${p.state}`}>{p.state}</span></td><td className="number">{p.revision}</td><td className="number">{p.generation}</td>
        <td className="dim">{p.layer}</td><td className="dim">{contributes(p)}</td>
        <td><Menu label={`Actions for ${p.name}`} items={[
          { label: "Reload", icon: "reload", run: () => void act("plugin.reload", p.name) },
          p.state === "disabled" ? { label: "Enable", icon: "play", run: () => void act("plugin.enable", p.name) } : { label: "Disable", icon: "stop", run: () => void act("plugin.disable", p.name) },
          ...(p.path ? [{ label: "Edit", icon: "edit" as const, run: () => openPath(p.path!) }] : []),
        ]} /></td>
      </tr>
      {error && <tr className="more"><td colSpan={7}><span className="tool-error">{error}</span></td></tr>}
    </>
  );
}

export function PluginsView() {
  const { rows, report, generation } = useStore(plugins);
  const past = useLoad(() => call("generation.list", {}), [generation]);
  const [to, setTo] = useState<number | null>(null);
  return (
    <View title="Plugins" sub={`generation ${generation}`} actions={
      <>
        <button type="button" className="button" onClick={() => void undo()}><Icon name="undo" /> Undo</button>
        <button type="button" className="button primary" onClick={() => void reloadAll()}><Icon name="reload" /> Reload</button>
      </>
    }>
      {report && <ReportLine report={report} />}
      {report && <Diagnostics list={report.diagnostics} />}
      {rows.length > 0 && <Table label="plugins" heads={["Plugin", "State", "#Revision", "#Generation", "Layer", "Contributes", ""]}>{rows.map((p) => <PluginLine key={p.name} p={p} />)}</Table>}
      {rows.length === 0 && <Empty icon="plug" title="No plugins yet"><code>afloat plugin new NAME</code> makes one. Saving its file makes it live.</Empty>}
      <h3>Generations</h3>
      <ol className="past">
        {past.data?.generations.slice(0, 20).map((g) => (
          <li key={g.generation}>
            <strong className="number">{g.generation}</strong>
            <span className="past-names">{[...g.added.map((n) => `+${n}`), ...g.changed.map((n) => `~${n}`), ...g.removed.map((n) => `−${n}`)].filter((n) => !n.startsWith("+lua:")).slice(0, 8).join(" ") || "the hub's own modules"}</span>
            <span className="dim">{g.trigger}, {ago(g.at)}</span>
            {g.generation === past.data?.current ? <span className="chip ok">now</span> : <button type="button" className="button small" onClick={() => setTo(g.generation)}>Go back</button>}
          </li>
        ))}
      </ol>
      {to !== null && <Confirm title={`Go back to generation ${to}?`} text="Plugins get the versions of that generation, as a new one. No file is changed; a plugin stays held until its file is saved again." action="Go back" onClose={() => setTo(null)} onYes={() => void undo(to)} />}
    </View>
  );
}

interface Timing {
  count: number;
  errors: number;
  p50_us: number;
  p99_us: number;
}

/** How often each contribution ran, and how long it took. */
function TimingTable({ stats }: { stats: PluginDetail["stats"] }) {
  const kinds = ["hooks", "tools", "routes", "commands"] as const;
  const all = (stats ?? {}) as Record<string, Record<string, Timing> | number>;
  const rows = kinds.flatMap((kind) => Object.entries((all[kind] ?? {}) as Record<string, Timing>).map(([name, t]) => ({ kind: kind.slice(0, -1), name, ...t })));
  const memory = all.memory_bytes;
  return (
    <>
      <h3>Timing {typeof memory === "number" && <span className="dim">{bytes(memory)} of memory</span>}</h3>
      {rows.length === 0 ? <p className="dim">It contributes nothing that runs in the hub.</p> : (
        <Table label="timing" heads={["Contribution", "#Calls", "#Errors", "#p50", "#p99"]}>
          {rows.map((r) => (
            <tr key={`${r.kind} ${r.name}`} data-timing={r.name}>
              <td><span className="dim">{r.kind}</span> <code>{r.name}</code></td><td className="number">{r.count}</td>
              <td className="number">{r.errors > 0 ? <span className="tool-error">{r.errors}</span> : 0}</td>
              <td className="number">{r.count > 0 ? micros(r.p50_us) : "–"}</td><td className="number">{r.count > 0 ? micros(r.p99_us) : "–"}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

export function PluginView({ params, setTitle }: PanelProps) {
  const name = text(params.name);
  const row = useStore(plugins, (p) => p.rows.find((r) => r.name === name));
  const shown = useLoad<PluginDetail>(() => call("plugin.show", { name }), [name, row?.revision, row?.state, row?.front_error, row?.error]);
  const logs = useLoad(() => call("plugin.logs", { name }), [name, row?.revision]);
  useEffect(() => setTitle(name), [name]);
  useEffect(() => { // what it takes and says while one looks
    const again = () => { shown.again(); logs.again(); };
    const ends = ["turn.completed", "turn.failed", "plugin.error"].map((type) => onEvent(type, again));
    return () => { for (const end of ends) end(); };
  }, []);
  const p = shown.data;
  return (
    <View title={name} sub={p && <span className={`chip state-${p.state}`}>{p.state}</span>} actions={p && (
      <>
        <button type="button" className="button" onClick={() => void act(p.state === "disabled" ? "plugin.enable" : "plugin.disable", name).then(shown.again)}>{p.state === "disabled" ? "Enable" : "Disable"}</button>
        <button type="button" className="button primary" onClick={() => void act("plugin.reload", name).then(shown.again)}><Icon name="reload" /> Reload</button>
      </>
    )}>
      <Failed error={shown.error} />
      {p && (
        <>
          {text(p.metadata?.description) && <p>{text(p.metadata?.description)}</p>}
          {p.front_error && p.diagnostics?.every((d) => d.message !== p.front_error) && <p className="tool-error">{p.front_error}</p>}
          {p.error && p.diagnostics?.length === 0 && <p className="tool-error">{p.error}</p>}
          <Diagnostics list={p.diagnostics ?? []} />
          <dl className="facts">
            <dt>Revision</dt><dd>{p.revision}, generation {p.generation}{p.serving ? ", serving" : ", not serving"}</dd>
            <dt>Host</dt><dd>{p.host || "none"}, layer {p.layer}</dd>
            {p.path && <><dt>File</dt><dd><PathLink path={p.path} /></dd></>}
            {p.hooks?.length > 0 && <><dt>Hooks</dt><dd className="mono">{p.hooks.map((h) => (typeof h === "string" ? h : JSON.stringify(h))).join(", ")}</dd></>}
            {p.tools?.length > 0 && <><dt>Tools</dt><dd className="mono">{p.tools.map((t) => (typeof t === "string" ? t : JSON.stringify(t))).join(", ")}</dd></>}
          </dl>
          {p.serving && p.stats !== undefined && <TimingTable stats={p.stats} />}
          {p.outputs && p.outputs.length > 0 && (
            <><h3>Outputs</h3><ul className="plain">{p.outputs.map((o, i) => <li key={i}><span className="dim">{o.kind}</span> <code>{o.name}</code> {o.needs ? <span className="chip warning">needs {o.needs}</span> : <span className="dim">swaps live</span>}</li>)}</ul></>
          )}
          {p.content && <details className="fold"><summary>Code</summary><Code text={p.content} lang={languageOf(p.path ?? "x.lua") || "lua"} /></details>}
          {logs.data && logs.data.lines.length > 0 && <><h3>Log</h3><Lines lines={logs.data.lines} /></>}
        </>
      )}
    </View>
  );
}

export const Lines = ({ lines }: { lines: readonly LogLine[] }) => (
  <ol className="lines" tabIndex={0} aria-label="Log">{lines.map((l, i) => <li key={i} className={l.level}><time>{l.ts ? clock(l.ts) : ""}</time> <span className="level">{l.level}</span> {l.component && <span className="dim">{l.component}</span>} <span>{l.text}</span></li>)}</ol>
);
