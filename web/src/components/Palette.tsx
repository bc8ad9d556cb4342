// The command palette: every command of the page and of plugins, every session, every file, every operation
// of the hub. One line to type in, one list to choose from.
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { callFailed } from "./Boundary";
import { Dialog } from "./Dialog";
import { Icon } from "./Icon";
import { useDir } from "./FileTree";
import { newSession, newSessionDialog, useDirs } from "../lib/actions";
import { call, explain, request } from "../lib/client";
import { allFiles, fuzzy } from "../lib/files";
import { shortPath } from "../lib/format";
import { hub } from "../lib/hub";
import { useOutputs } from "../lib/registry";
import { sessions, sessionTitle, useAllSessions } from "../lib/sessions";
import { useStore } from "../lib/store";
import { currentSession, openPanel, palette, toast } from "../lib/ui";

interface Entry {
  id: string;
  title: string;
  group: string;
  owner?: string;
  detail?: string;
  shortcut?: string;
  run(): unknown;
}
interface Operation {
  id: string;
  method: string;
  path: string;
  summary: string;
  destructive: boolean;
  params: { name: string; at: string; must: boolean; type: string; help: string }[];
}

let described: Promise<Operation[]> | null = null;

/** Every operation that a page may call, from the hub's own description. */
function operations(): Promise<Operation[]> {
  interface Doc { paths: Record<string, Record<string, {
    operationId: string; summary: string;
    parameters: { name: string; in: string; required: boolean; description?: string; schema: { type?: string } }[];
    requestBody?: { content: Record<string, { schema: { properties: Record<string, { type?: string; description?: string }>; required: string[] } }> };
    "x-afloat-socket-only"?: boolean; "x-afloat-destructive"?: boolean;
  }>> }
  described ??= request("GET", "/openapi.json").then((d) => Object.entries((d as Doc).paths).flatMap(([path, methods]) =>
    Object.entries(methods).filter(([, op]) => !op["x-afloat-socket-only"]).map(([method, op]) => {
      const body = op.requestBody?.content["application/json"]?.schema;
      return {
        id: op.operationId, method: method.toUpperCase(), path, summary: op.summary, destructive: op["x-afloat-destructive"] ?? false,
        params: [
          ...op.parameters.map((p) => ({ name: p.name, at: p.in, must: p.required, type: p.schema.type ?? "any", help: p.description ?? "" })),
          ...Object.entries(body?.properties ?? {}).map(([name, s]) => ({ name, at: "body", must: body!.required.includes(name), type: s.type ?? "any", help: s.description ?? "" })),
        ],
      };
    })));
  described.catch(() => { described = null; });
  return described;
}

const shapes: Record<string, string> = { array: 'an array is written as JSON, like ["a", "b"]', object: 'an object is written as JSON, like {"a": 1}', boolean: "true or false", integer: "a whole number" };

/** A field of the form as the operation takes it. */
function valueOf(p: Operation["params"][number], raw: string): unknown {
  if (p.type === "string") return raw;
  try {
    return JSON.parse(raw);
  } catch {
    throw new Error(`${p.name}: ${shapes[p.type] ?? "a value is written as JSON"}`);
  }
}

/** A form for one operation: what it takes, then what it answered. */
function OperationForm({ op, onDone }: { op: Operation; onDone(): void }) {
  const session = currentSession.get();
  const start = (name: string): string => (name === "id" && op.path.startsWith("/session/") ? session ?? "" : "");
  const [values, setValues] = useState<Record<string, string>>(Object.fromEntries(op.params.map((p) => [p.name, start(p.name)])));
  const [answer, setAnswer] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      const body: Record<string, unknown> = {};
      const query = new URLSearchParams();
      let path = op.path;
      for (const p of op.params) {
        const raw = values[p.name] ?? "";
        if (p.at === "path") path = path.replace(`{${p.name}}`, encodeURIComponent(raw));
        else if (raw !== "" && p.at === "query") query.set(p.name, raw);
        else if (raw !== "") body[p.name] = valueOf(p, raw);
      }
      const takesBody = op.params.some((p) => p.at === "body");
      if (op.id === "events") query.set("limit", query.get("limit") ?? "50");
      const done = await request(op.method, query.size ? `${path}?${query}` : path, takesBody ? body : undefined);
      setAnswer(typeof done === "string" ? done : JSON.stringify(done, null, 2));
    } catch (e) {
      setAnswer(explain(e));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form className="operation" onSubmit={(e) => { e.preventDefault(); void run(); }}>
      <p><code>{op.method} {op.path}</code><br />{op.summary}</p>
      {op.params.map((p, i) => (
        <label key={p.name}>
          <span>{p.name}{p.must ? "" : " (optional)"} <span className="dim">{p.type === "string" ? "" : p.type} {p.help}</span></span>
          <input autoFocus={i === 0} required={p.must} value={values[p.name] ?? ""} onChange={(e) => setValues({ ...values, [p.name]: e.target.value })} />
        </label>
      ))}
      {answer !== null && <pre className="answer" tabIndex={0}>{answer}</pre>}
      <div className="dialog-foot">
        <button type="button" className="button" onClick={onDone}>Back</button>
        <button type="submit" autoFocus={op.params.length === 0} className={op.destructive ? "button danger" : "button primary"} disabled={busy}>Run</button>
      </div>
    </form>
  );
}

/** What the list shows for `query`, and what it would show for another one. */
function useEntries(mode: string, query: string, choose: (op: Operation) => void): { entries: Entry[]; find(other: string): Entry[] } {
  const commands = useOutputs("commands");
  const panels = useOutputs("panels");
  const catalogs = useOutputs("catalogs");
  const { rows } = useStore(sessions);
  useAllSessions(query.length >= 2);
  const dir = useDir();
  const [ops, setOps] = useState<Operation[]>([]);
  const [files, setFiles] = useState<string[]>([]);
  const [server, setServer] = useState<Entry[]>([]);
  const [found, setFound] = useState<Entry[]>([]);

  useEffect(() => {
    void operations().then(setOps, () => undefined);
    void call("command.list", {}).then((c) => setServer(c.commands.map((one) => ({
      id: `x:${one.name}`, title: one.name, group: "Plugin commands", detail: one.description ?? "",
      run: async () => {
        const answer = await call("command.run", { name: one.name, args: [], working_dir: dir ?? undefined });
        toast(typeof answer.output === "string" ? answer.output || "done" : JSON.stringify(answer.output));
      },
    }))), () => undefined);
    if (dir) void allFiles(dir).then(setFiles);
  }, [dir]);

  useEffect(() => { // catalogs answer in their own time
    let on = true;
    setFound([]);
    if (query.length >= 2) {
      for (const c of catalogs) {
        void Promise.resolve().then(() => c.search(query)).then((items) => {
          if (!on) return;
          if (!Array.isArray(items) || items.some((i) => typeof i?.title !== "string")) throw new Error("search() must give a list of { id, title }");
          if (items.some((i) => typeof (i.detail ?? "") !== "string")) throw new Error("search(): 'detail' must be a text");
          const made = items.slice(0, 20).map((item) => ({
            id: `k:${c.key}:${item.id}`, title: item.title, detail: item.detail, group: c.title, owner: c.owner, run: () => c.onSelect(item, hub),
          }));
          setFound((old) => [...old, ...made]); // each answers once
        }).catch((e: unknown) => callFailed(c.owner, `catalog ${c.title}`, e));
      }
    }
    return () => { on = false; };
  }, [catalogs, query]);

  const all = useMemo<Entry[]>(() => {
    const sessionEntries = rows.map((r): Entry => ({
      id: `s:${r.id}`, title: sessionTitle(r), group: "Sessions", detail: `${r.state} · ${r.working_dir ? shortPath(r.working_dir) : ""}`, run: () => currentSession.set(r.id),
    }));
    const fileEntries = files.map((f): Entry => ({
      id: `f:${f}`, title: f, group: "Files", run: () => openPanel("file", { key: `${dir}:${f}`, dir, path: f }),
    }));
    if (mode === "sessions") return sessionEntries;
    if (mode === "files") return fileEntries;
    return [
      ...commands.map((c): Entry => ({
        id: `c:${c.key}`, title: c.title, group: c.group ?? (c.owner === "afloat" ? "Commands" : c.owner), owner: c.owner, shortcut: c.shortcut, run: () => c.run(hub),
      })),
      ...panels.filter((p) => !p.many).map((p): Entry => ({ id: `p:${p.key}`, title: `Open: ${p.title}`, group: "Panels", run: () => openPanel(p.key) })),
      ...server,
      ...sessionEntries,
      ...fileEntries,
      ...ops.map((o): Entry => ({ id: `o:${o.id}`, title: o.id, group: "Operations", detail: o.summary, run: () => choose(o) })),
    ];
  }, [mode, commands, panels, server, rows, files, ops, dir]);

  const find = useCallback((words: string) => {
    const some = mode === "commands" && words.length < 2 ? all.filter((e) => e.group !== "Files") : all;
    return fuzzy(words, some, (e) => `${e.title} ${e.detail ?? ""}`, words === "" ? 400 : 60);
  }, [mode, all]);
  return { entries: useMemo(() => [...find(query), ...found], [query, find, found]), find };
}

function Inner({ onClose }: { onClose(): void }) {
  const { mode, query: first } = useStore(palette);
  const [query, setQuery] = useState(first);
  const [at, setAt] = useState(0);
  const [op, setOp] = useState<Operation | null>(null);
  const shown = useDeferredValue(query.trim()); // what the list answers
  const { entries, find } = useEntries(mode, shown, setOp);
  const list = useRef<HTMLDivElement>(null);
  const grouped = useMemo(() => {
    const made = new Map<string, Entry[]>();
    for (const e of entries) made.set(e.group, [...(made.get(e.group) ?? []), e]);
    return [...made];
  }, [entries]);
  const flat = grouped.flatMap(([, l]) => l);
  const active = flat[Math.min(at, flat.length - 1)];
  useEffect(() => { list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }); }, [active]);

  const go = (e: Entry) => {
    if (!e.id.startsWith("o:")) onClose();
    void Promise.resolve().then(e.run).catch((x: unknown) => callFailed(e.owner ?? "afloat", e.title, x));
  };
  /** Enter runs what was typed, also when the list is a few keys behind. */
  const enter = (typed: string) => {
    const e = typed === shown ? active : find(typed)[0];
    if (e) go(e);
  };
  if (op) return <OperationForm op={op} onDone={() => setOp(null)} />;
  return (
    <>
      <div className="palette-input">
        <Icon name="search" />
        <input autoFocus role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={active ? `entry-${flat.indexOf(active)}` : undefined}
          aria-label="Search commands, sessions, files and operations" placeholder={mode === "sessions" ? "Go to a session" : mode === "files" ? "Find a file" : "Search commands, sessions, files, operations"}
          value={query} onChange={(e) => { setQuery(e.target.value); setAt(0); }}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown") setAt(Math.min(flat.length - 1, at + 1));
            else if (e.key === "ArrowUp") setAt(Math.max(0, at - 1));
            else if (e.key === "Enter") enter(e.currentTarget.value.trim());
            else return;
            e.preventDefault();
          }} />
      </div>
      <div className="palette-list" id="palette-list" role="listbox" aria-label="Results" ref={list}>
        {grouped.map(([group, items]) => (
          <div key={group} role="group" aria-label={group}>
            <div className="side-head" aria-hidden="true">{group}</div>
            {items.map((e) => (
              <div key={e.id} id={`entry-${flat.indexOf(e)}`} role="option" aria-selected={e === active} className="entry"
                onMouseMove={() => { if (e !== active) setAt(flat.indexOf(e)); }} onClick={() => go(e)}>
                <span className="entry-title">{e.title}</span>{e.detail && <span className="entry-detail">{e.detail}</span>}
                {e.shortcut && <kbd>{e.shortcut}</kbd>}
              </div>
            ))}
          </div>
        ))}
        {flat.length === 0 && <p className="side-empty">Nothing matches.</p>}
      </div>
    </>
  );
}

export function Palette() {
  const { open } = useStore(palette);
  if (!open) return null;
  const close = () => palette.set((p) => ({ ...p, open: false }));
  return <Dialog label="Command palette" className="palette" onClose={close}><Inner onClose={close} /></Dialog>;
}

/** Where a new session works, and how. */
export function NewSession() {
  const open = useStore(newSessionDialog);
  const dirs = useDirs();
  const [busy, setBusy] = useState(false);
  if (!open) return null;
  const close = () => newSessionDialog.set(false);
  return (
    <Dialog label="New session" onClose={close}>
      <form className="operation" onSubmit={(e) => {
        e.preventDefault();
        const f = new FormData(e.currentTarget);
        const dir = String(f.get("dir")).trim().replace(/(.)\/+$/, "$1");
        setBusy(true);
        void newSession({ working_dir: dir, permission: String(f.get("permission")) || undefined, model: String(f.get("model")).trim() || undefined })
          .then((row) => { setBusy(false); if (row) close(); });
      }}>
        <h2>New session</h2>
        <label><span>Directory</span>
          <input name="dir" required autoFocus defaultValue={dirs[0] ?? ""} list="known-dirs" placeholder="/home/me/project" spellCheck={false} pattern="/.*" title="an absolute path" />
          <datalist id="known-dirs">{dirs.map((d) => <option key={d} value={d} />)}</datalist>
        </label>
        <div className="two">
          <label><span>Permission</span>
            <select name="permission" defaultValue="">
              <option value="">as configured</option><option value="ask">ask</option><option value="edits">edits</option><option value="plan">plan</option><option value="auto">auto</option><option value="deny">deny</option>
            </select>
          </label>
          <label><span>Model</span><input name="model" placeholder="as configured" spellCheck={false} /></label>
        </div>
        <div className="dialog-foot">
          <button type="button" className="button" onClick={close}>Cancel</button>
          <button type="submit" className="button primary" disabled={busy}>Begin</button>
        </div>
      </form>
    </Dialog>
  );
}
