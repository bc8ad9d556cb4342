// One session: its settings, and the way back to before a turn.
import { useEffect, useState } from "react";
import { Icon } from "../components/Icon";
import { attempt, rename, setModel, setPermission } from "../lib/actions";
import type { Checkpoint, SessionRow } from "../lib/answers";
import { call, explain, Problem } from "../lib/client";
import { ago, plural, usageText } from "../lib/format";
import type { PanelProps } from "../lib/registry";
import { noteSession, sessions, sessionTitle } from "../lib/sessions";
import { useStore } from "../lib/store";
import { toast } from "../lib/ui";
import { Empty, Failed, PathLink, Segments, text, useLoad, View } from "./parts";

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
        <label><span>Title</span><input key={row.title ?? ""} defaultValue={row.title ?? ""} placeholder={sessionTitle(row)} onBlur={(e) => { if (e.target.value !== (row.title ?? "")) void rename(id, e.target.value); }} /></label>
        <div className="two">
          <label><span>Provider</span>
            <select value={row.provider} onChange={(e) => patch({ provider: e.target.value })}>
              {(providers.data?.providers ?? [{ name: row.provider, kind: "", has_key: true, needs_key: false }]).map((p) => <option key={p.name} value={p.name}>{p.name}{p.has_key || !p.needs_key ? "" : " (no key)"}</option>)}
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
        {row.instructions.length > 0 && <><dt>Instructions</dt><dd>{row.instructions.map((i) => <div key={i}><PathLink path={i} /></div>)}</dd></>}
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
  const [error, setError] = useState<{ text: string; forced: boolean } | null>(null); // forced: it may be done all the same
  useEffect(() => setTitle("Rewind"), []);
  useEffect(() => setChosen(text(params.to)), [params.to]);
  const busy = row?.state === "running" || row?.state === "waiting";
  const parts = { files: what !== "conversation", conversation: what !== "files" };
  useEffect(() => {
    let on = true;
    setPlan(null);
    setError(null);
    if (chosen && !busy) call("session.rewind", { id, to: chosen, ...parts, dry_run: true }).then((p) => on && setPlan(p), (e: unknown) => on && setError({ text: explain(e), forced: false }));
    return () => { on = false; };
  }, [id, chosen, what, row?.last_seq, busy]);
  const go = async (force: boolean) => {
    try {
      const done = await call("session.rewind", { id, to: chosen, ...parts, force });
      toast(`Rewound: ${done.restored.length} restored, ${done.deleted.length} deleted`, "success");
      setChosen("");
      points.again();
    } catch (e) {
      const forced = e instanceof Problem && e.code === "CONFLICT";
      setError({ text: forced ? `${e.message}. Rewinding anyway overwrites them; they are kept.` : explain(e), forced });
    }
  };
  const list = points.data?.checkpoints ?? [];
  const top = `${row?.worktree ?? row?.working_dir ?? ""}/`;
  const inside = (path: string) => (path.startsWith(top) ? path.slice(top.length) : path);
  return (
    <View title="Rewind">
      <p className="dim">Go back to the state before a turn. Every rewind is listed too: rewinding to it undoes it.</p>
      <Failed error={points.error} />
      <ul className="points" aria-label="Checkpoints">
        {[...list].reverse().map((c: Checkpoint) => (
          <li key={c.turn}><label className={c.turn === chosen ? "point chosen" : "point"}>
            <input type="radio" name="point" checked={c.turn === chosen} onChange={() => setChosen(c.turn)} />
            <span className="point-text">{c.text || c.turn}</span>
            <span className="dim">{ago(c.at)}{Array.isArray(c.files) && c.files.length > 0 ? `, ${plural(c.files.length, "file")}` : ""}</span>
          </label></li>
        ))}
      </ul>
      {list.length === 0 && points.data && <Empty icon="undo" title="Nothing to rewind yet">Each turn is a checkpoint: its files and its place in the conversation.</Empty>}
      {chosen && (
        <div className="card">
          <Segments label="What to bring back" value={what} all={[["both", "Files and conversation"], ["files", "Files"], ["conversation", "Conversation"]]} onChange={setWhat} />
          {plan && what !== "conversation" && (
            <ul className="plain mono">
              {plan.restored.map((f) => <li key={f}>restore {inside(f)}</li>)}{plan.deleted.map((f) => <li key={f}>delete {inside(f)}</li>)}
              {plan.conflicts.map((f, i) => <li key={i} className="tool-error">changed since: {typeof f === "string" ? inside(f) : JSON.stringify(f)}</li>)}
              {plan.restored.length + plan.deleted.length + plan.conflicts.length === 0 && <li className="dim">no files change</li>}
            </ul>
          )}
          <Failed error={busy ? "A turn runs. Stop it first, or let it end." : error?.text ?? null} />
          <div className="dialog-foot">
            {(plan?.conflicts.length || error?.forced) && <button type="button" className="button danger" onClick={() => void go(true)}>Rewind anyway</button>}
            <button type="button" className="button primary" disabled={plan === null || plan.conflicts.length > 0 || error !== null} onClick={() => void go(false)}><Icon name="undo" /> Rewind</button>
          </div>
        </div>
      )}
    </View>
  );
}
