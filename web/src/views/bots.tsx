// Bots: run one, say what it is to do, see what it remembers, knows and did; a run with its diff.
import { useEffect, useState } from "react";
import { Diff } from "../components/Diff";
import { Confirm } from "../components/Dialog";
import { useDir } from "../components/FileTree";
import { Icon } from "../components/Icon";
import { attempt } from "../lib/actions";
import type { BotRow, Run } from "../lib/answers";
import { call } from "../lib/client";
import { ago, duration, plural, shortPath } from "../lib/format";
import { refreshBots, refreshRuns, runs } from "../lib/lists";
import type { PanelProps } from "../lib/registry";
import { useStore } from "../lib/store";
import { cover, currentSession, openPanel } from "../lib/ui";
import { Empty, Failed, PathLink, Segments, text, useLoad, View } from "./parts";
import { Diagnostics } from "./plugins";

const goTo = (session: string) => { currentSession.set(session); cover.set("none"); };

// ---- the parts of a bot ------------------------------------------------------------------------------

function RunForm({ bot, dir }: { bot: string; dir: string | null }) {
  const start = async (f: FormData) => {
    const run = await attempt(call("run.start", { bot, prompt: text(f.get("prompt")) || undefined, working_dir: text(f.get("dir")), iterations: Number(f.get("iterations")) || 1 }));
    if (run) { refreshRuns(); openPanel("run", { key: run.run_id, run: run.run_id }); }
  };
  return (
    <form className="operation" onSubmit={(e) => { e.preventDefault(); void start(new FormData(e.currentTarget)); }}>
      <label><span>Task</span><textarea name="prompt" rows={3} placeholder="What it should do; without one it follows its instructions" /></label>
      <div className="two">
        <label><span>Directory</span><input key={dir} name="dir" required defaultValue={dir ?? ""} spellCheck={false} /></label>
        <label><span>Iterations</span><input name="iterations" type="number" min={1} max={100} defaultValue={1} /></label>
      </div>
      <div className="form-foot"><span className="dim">It works in its own git worktree. Your files change when you apply or merge.</span><button type="submit" className="button primary"><Icon name="play" /> Run</button></div>
    </form>
  );
}

function RunList({ bot }: { bot: string }) {
  const done = useStore(runs).filter((r) => r.bot === bot);
  if (done.length === 0) return <Empty icon="play" title="No runs yet">What it did shows up here, to review and merge.</Empty>;
  return (
    <ul className="rows" aria-label="Runs">
      {done.map((r) => (
        <li key={r.run_id}><button type="button" onClick={() => openPanel("run", { key: r.run_id, run: r.run_id })}>
          <span className={`dot ${r.state === "running" ? "running" : r.action === "review" ? "waiting" : "idle"}`} aria-hidden="true" />
          <span className="row-title">{r.prompt ?? r.run_id}</span><span className="dim">{r.state === "running" ? "running" : r.action ?? r.state}, {ago(r.started_at)}</span>
        </button></li>
      ))}
    </ul>
  );
}

type Shown = BotRow & { instructions?: string; settings?: Record<string, unknown>; path?: string };

function Settings({ bot, onSaved }: { bot: Shown | null; onSaved(name: string): void }) {
  const save = async (f: FormData) => {
    const given = (name: string) => text(f.get(name)).trim() || (bot ? "" : undefined); // empty: no longer set
    const fields = { description: text(f.get("description")), instructions: text(f.get("instructions")), model: given("model"), provider: given("provider") };
    const name = bot?.name ?? text(f.get("name")).trim();
    const done = bot ? await attempt(call("bot.patch", { bot: name, ...fields }), "Saved") : await attempt(call("bot.create", { name, ...fields }), "Created");
    if (done) onSaved(name);
    refreshBots();
  };
  return (
    <form key={JSON.stringify(bot)} className="operation" onSubmit={(e) => { e.preventDefault(); void save(new FormData(e.currentTarget)); }}>
      {!bot && <label><span>Name</span><input name="name" required autoFocus pattern="[a-z0-9][a-z0-9_\-]*" title="small letters, digits, - and _" placeholder="tidy" /></label>}
      <label><span>Description</span><input name="description" defaultValue={text(bot?.description)} placeholder="Keeps the tree tidy" /></label>
      <label><span>Instructions</span><textarea name="instructions" rows={10} defaultValue={text(bot?.instructions)} placeholder="What it is to do, how it knows that it is done, and what it must not touch" /></label>
      <div className="two">
        <label><span>Provider</span><input name="provider" spellCheck={false} defaultValue={text(bot?.settings?.provider)} placeholder="as configured" /></label>
        <label><span>Model</span><input name="model" spellCheck={false} defaultValue={text(bot?.settings?.model)} placeholder="as configured" /></label>
      </div>
      <div className="form-foot">{bot?.path ? <PathLink path={bot.path} /> : <span />}<button type="submit" className="button primary">{bot ? "Save" : "Create"}</button></div>
    </form>
  );
}

function Memory({ bot, dir }: { bot: string; dir: string | null }) {
  const memory = useLoad(() => (dir ? call("memory.list", { bot, working_dir: dir }) : Promise.resolve(null)), [bot, dir]);
  const at = { bot, working_dir: dir ?? undefined };
  const set = async (form: HTMLFormElement) => {
    const f = new FormData(form);
    if (await attempt(call("memory.set", { ...at, key: text(f.get("key")).trim(), value: text(f.get("value")) }), "Remembered")) form.reset();
    memory.again();
  };
  const entries = Object.entries(memory.data?.entries ?? {});
  return (
    <>
      <Failed error={memory.error} />
      {memory.data && <p className="dim">What it remembers of <code>{memory.data.project}</code>. It reads this at the beginning of each session, and writes it with a tool.</p>}
      {entries.length > 0 && (
        <dl className="memory">{entries.map(([k, v]) => (
          <div key={k}><dt>{k}</dt><dd>{typeof v === "string" ? v : JSON.stringify(v)}</dd>
            <button type="button" className="icon-button" aria-label={`Forget ${k}`} title={`Forget ${k}`} onClick={() => void attempt(call("memory.remove", { ...at, key: k }), "Forgotten").then(memory.again)}><Icon name="close" /></button></div>
        ))}</dl>
      )}
      {memory.data && entries.length === 0 && <Empty icon="leaf" title="Nothing remembered yet" />}
      <form className="inline-form" onSubmit={(e) => { e.preventDefault(); void set(e.currentTarget); }}>
        <input name="key" required aria-label="Key" placeholder="Key" spellCheck={false} /><input name="value" required aria-label="Value" placeholder="Value" className="grow" />
        <button type="submit" className="button">Remember</button>
      </form>
    </>
  );
}

interface Skill {
  name: string;
  description?: string;
  source?: string;
  body?: string;
}

function Skills({ bot, dir }: { bot: string; dir: string | null }) {
  const skills = useLoad(() => call("skill.list", { bot, working_dir: dir ?? undefined }), [bot, dir]);
  const [editing, setEditing] = useState<Skill | null>(null);
  const edit = async (name: string) => {
    const one = await attempt(call("skill.show", { name, bot, working_dir: dir ?? undefined }));
    if (one) setEditing(one as Skill);
  };
  const save = async (f: FormData) => {
    const done = await attempt(call("skill.save", { bot, name: editing?.name || text(f.get("name")).trim(), description: text(f.get("description")), body: text(f.get("body")) }), "Saved");
    if (done) { setEditing(null); skills.again(); }
  };
  if (editing) {
    return (
      <form className="operation" onSubmit={(e) => { e.preventDefault(); void save(new FormData(e.currentTarget)); }}>
        {editing.name ? <h3>{editing.name}</h3> : <label><span>Name</span><input name="name" required autoFocus pattern="[a-z0-9][a-z0-9_\-]*" title="small letters, digits, - and _" /></label>}
        <label><span>Description</span><input name="description" defaultValue={editing.description ?? ""} placeholder="When to use it" /></label>
        <label><span>Text</span><textarea name="body" required rows={12} className="mono" defaultValue={editing.body ?? ""} /></label>
        <div className="form-foot"><button type="button" className="button" onClick={() => setEditing(null)}>Cancel</button><button type="submit" className="button primary">Save</button></div>
      </form>
    );
  }
  const list = (skills.data?.skills ?? []) as Skill[];
  return (
    <>
      <Failed error={skills.error} />
      {list.length > 0 && (
        <ul className="rows" aria-label="Skills">{list.map((s) => (
          <li key={s.name}><button type="button" onClick={() => void edit(s.name)}><Icon name="file" /><span className="row-title">{s.name}</span><span className="dim grow">{s.description}</span><span className="chip">{s.source ?? ""}</span></button></li>
        ))}</ul>
      )}
      {skills.data && list.length === 0 && <Empty icon="file" title="No skills yet">A skill is a text that says how something is done. The bot reads it when it needs it.</Empty>}
      <div className="form-foot"><span /><button type="button" className="button" onClick={() => setEditing({ name: "" })}><Icon name="plus" /> New skill</button></div>
    </>
  );
}

function History({ bot, dir }: { bot: string; dir: string | null }) {
  const past = useLoad(() => (dir ? call("history.list", { bot, working_dir: dir, limit: 50 }) : Promise.resolve(null)), [bot, dir]);
  return (
    <>
      <Failed error={past.error} />
      {past.data && past.data.sessions.length === 0 && <Empty icon="chat" title="No sessions yet">Each iteration of a run is a session. They are listed here, with what came of them.</Empty>}
      <ul className="rows" aria-label="History">{past.data?.sessions.map((h) => (
        <li key={h.session_id}><button type="button" onClick={() => goTo(h.session_id)}>
          <span className="number dim">{h.session_number}</span><span className="row-title">{h.response_summary || "no answer"}</span><span className="dim">{h.end_reason ?? "running"}, {ago(h.started_at)}</span>
        </button></li>
      ))}</ul>
    </>
  );
}

const tabs = [["run", "Task"], ["settings", "Instructions"], ["memory", "Memory"], ["skills", "Skills"], ["history", "History"]] as const;

export function BotView({ params, setTitle, close }: PanelProps) {
  const name = text(params.bot);
  const dir = useDir();
  const shown = useLoad(() => (name ? call("bot.show", { bot: name }) : Promise.resolve(null)), [name]);
  const [asking, setAsking] = useState(false);
  const [tab, setTab] = useState<(typeof tabs)[number][0]>("run");
  useEffect(() => setTitle(name || "New bot"), [name]);
  if (!name) {
    return (
      <View title="New bot">
        <p className="dim">A bot is an agent with instructions, memory and skills of its own. It works in a git worktree; you review what it did.</p>
        <Settings bot={null} onSaved={(made) => { openPanel("bot", { key: made, bot: made }); close(); }} />
      </View>
    );
  }
  return (
    <View title={name} sub={text(shown.data?.description)} actions={<button type="button" className="button danger" onClick={() => setAsking(true)}>Delete</button>}>
      <Failed error={shown.error} />
      {shown.data?.diagnostics && <Diagnostics list={shown.data.diagnostics} />}
      <Segments label="Parts of the bot" value={tab} all={tabs} onChange={setTab} />
      {tab === "run" && <><RunForm bot={name} dir={dir} /><h3>Runs</h3><RunList bot={name} /></>}
      {tab === "settings" && shown.data && <Settings bot={shown.data as Shown} onSaved={() => shown.again()} />}
      {tab === "memory" && <Memory bot={name} dir={dir} />}
      {tab === "skills" && <Skills bot={name} dir={dir} />}
      {tab === "history" && <History bot={name} dir={dir} />}
      {asking && <Confirm title={`Delete ${name}?`} text="The bot goes to the trash. Its history stays." action="Delete" onClose={() => setAsking(false)} onYes={() => void attempt(call("bot.delete", { bot: name }), "Deleted").then(() => { refreshBots(); close(); })} />}
    </View>
  );
}

// ---- runs --------------------------------------------------------------------------------------------

const words = {
  apply: ["Apply these changes?", "They are put on your working tree, uncommitted.", "Apply", "Applied"],
  merge: ["Merge this run?", "Its commits are merged into the branch that is checked out.", "Merge", "Merged"],
  discard: ["Discard this run?", "It is marked as not wanted. Its branch stays.", "Discard", "Discarded"],
} as const;

export function RunView({ params, setTitle }: PanelProps) {
  const id = text(params.run);
  const listed = useStore(runs, (all) => all.find((r) => r.run_id === id));
  const shown = useLoad<Run>(() => call("run.show", { id }), [id, listed]);
  const over = listed?.state === "ended";
  const diff = useLoad(() => (over ? call("run.diff", { id }) : Promise.resolve(null)), [id, over]);
  const [asking, setAsking] = useState<keyof typeof words | null>(null);
  const run = shown.data;
  useEffect(() => setTitle(run ? `${run.bot} run` : id), [run?.bot]);
  const act = async (op: "run.apply" | "run.merge" | "run.discard" | "run.stop", done: string) => {
    await attempt(call(op, { id }), done);
    refreshRuns();
    shown.again();
    diff.again();
  };
  const settled = run && (run.merged_at || run.discarded_at);
  const outcome = run?.merged_at ? "merged" : run?.applied_at ? "applied" : run?.discarded_at ? "discarded" : run?.end_reason;
  return (
    <View title={run ? `${run.bot} run` : id} actions={run && (
      <>
        {run.session_id && <button type="button" className="button" onClick={() => goTo(run.session_id!)}><Icon name="chat" /> Conversation</button>}
        {run.state === "running" ? <button type="button" className="button stop" onClick={() => void act("run.stop", "Stopping")}><Icon name="stop" /> Stop</button> : !settled && (
          <>
            <button type="button" className="button" onClick={() => setAsking("discard")}>Discard</button>
            {!run.applied_at && <button type="button" className="button" onClick={() => setAsking("apply")}>Apply</button>}
            <button type="button" className="button primary" onClick={() => setAsking("merge")}><Icon name="merge" /> Merge</button>
          </>
        )}
      </>
    )}>
      <Failed error={shown.error} />
      {run && (
        <dl className="facts">
          <dt>State</dt><dd>{run.state === "running" ? <><span className="spinner" aria-hidden="true" /> running</> : <><span className={`chip ${run.end_reason === "complete" ? "ok" : "warning"}`}>{run.state}</span> {outcome}</>}</dd>
          {run.prompt && <><dt>Task</dt><dd>{run.prompt}</dd></>}
          {run.branch && <><dt>Branch</dt><dd><code>{run.branch}</code></dd></>}
          {run.working_dir && <><dt>Directory</dt><dd title={run.working_dir}><code>{shortPath(run.working_dir)}</code></dd></>}
          <dt>Began</dt><dd>{ago(run.started_at)}{run.ended_at ? `, took ${duration(Date.parse(run.ended_at) - Date.parse(run.started_at))}` : ""}</dd>
          {run.summary && <><dt>Summary</dt><dd>{run.summary}</dd></>}
        </dl>
      )}
      {run?.error && <p className="tool-error">{run.error}</p>}
      {run?.state === "running" && <Empty icon="bot" title="It is working">The diff is here when the run has ended. Its conversation shows each step.</Empty>}
      <Failed error={diff.error} />
      {over && !diff.data && !diff.error && <p className="dim"><span className="spinner" aria-hidden="true" /> Reading the changes</p>}
      {diff.data && (diff.data.patch
        ? <><p className="summary"><span>{plural(diff.data.files.length, "file")}</span> <ins>+{diff.data.added}</ins> <del>−{diff.data.removed}</del></p>{diff.data.cut && <p className="banner"><span>The patch is too long and is cut off: <code>git diff</code> on the run's branch shows all of it.</span></p>}<Diff diff={diff.data.patch} /></>
        : <Empty icon="check" title="No changes" />)}
      {asking && <Confirm title={words[asking][0]} text={words[asking][1]} action={words[asking][2]} onClose={() => setAsking(null)} onYes={() => void act(`run.${asking}`, words[asking][3])} />}
    </View>
  );
}
