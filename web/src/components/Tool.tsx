import { memo, useState } from "react";
import { Args } from "./Args";
import { Boundary } from "./Boundary";
import { Colours, CopyButton } from "./Code";
import { Diff } from "./Diff";
import { Icon, type IconName } from "./Icon";
import { duration, languageOf } from "../lib/format";
import { useOutputs, type ToolCall } from "../lib/registry";
import { openPanel } from "../lib/ui";
import { findSession } from "../lib/sessions";
import { visible } from "../lib/visible";

const icons: Record<string, IconName> = {
  shell: "terminal", read_file: "file", write_file: "edit", edit_file: "edit", list_files: "folder", search_files: "search",
  plugin_save: "plug", ask_user: "help", task: "bot",
};
const verbs: Record<ToolCall["state"], string> = { waiting: "waits for you", running: "running", done: "done", failed: "failed" };

/** The one argument that says what a call is about. */
function subject(call: ToolCall): string {
  const input = call.input as Record<string, unknown> | null;
  if (!input || typeof input !== "object") return typeof call.input === "string" ? call.input : "";
  for (const name of ["cmd", "path", "pattern", "url", "prompt", "question", "name", "key"]) {
    if (typeof input[name] === "string") return input[name];
  }
  const text = JSON.stringify(input);
  return text === "{}" ? "" : text;
}

const opened = new Map<string, boolean>(); // what was opened or closed by hand, while cards come and go

function Body({ call, session }: { call: ToolCall; session: string }) {
  const renderers = useOutputs("toolRenderers");
  const own = renderers.find((r) => r.tool === call.tool);
  if (own) {
    return <Boundary what={`${own.owner}: renderer of ${call.tool}`} owner={own.owner} reset={own.component}><own.component call={call} /></Boundary>;
  }
  const input = call.input as Record<string, unknown> | null;
  const path = typeof input?.path === "string" ? input.path : "";
  const rest = input && typeof input === "object"
    ? Object.entries(input).filter(([k, v]) => v !== subject(call) && !(call.diff && ["content", "old", "new", "path"].includes(k)))
    : [];
  const dir = findSession(session)?.worktree ?? findSession(session)?.working_dir;
  return (
    <>
      {call.tool === "shell" && <pre className="tool-cmd" tabIndex={0}><span aria-hidden="true">$ </span><Colours text={visible(subject(call))} lang="bash" /></pre>}
      <Args all={rest} />
      {call.diff && <Diff diff={call.diff} />}
      {call.output && !(call.diff && call.state === "done") && (
        <div className="tool-out">
          <pre tabIndex={0} aria-label="output">{call.tool === "read_file" ? <Colours text={call.output} lang={languageOf(path)} /> : call.output}</pre>
          <CopyButton text={call.output} label="Copy output" />
        </div>
      )}
      {call.error && <p className="tool-error">{call.error}</p>}
      {path && dir && (
        <button type="button" className="link-button" onClick={() => openPanel("file", { key: `${dir}:${path}`, dir, path })}>
          Open {path}
        </button>
      )}
    </>
  );
}

export const ToolCard = memo(function ToolCard({ id, call, session, changedBy }: { id: string; call: ToolCall; session: string; changedBy: string | null }) {
  const busy = call.state === "running" || call.state === "waiting";
  const byDefault = (call.state === "running" && call.tool !== "ask_user") || /* the question below shows it */ call.state === "failed" || call.diff !== null;
  const [chosen, setChosen] = useState<boolean | undefined>(opened.get(session + id));
  const open = chosen ?? byDefault;
  const toggle = () => { opened.set(session + id, !open); setChosen(!open); };
  return (
    <div className={`tool ${call.state}`} data-tool={call.tool} data-state={call.state}>
      <button type="button" className="tool-head" aria-expanded={open} onClick={toggle}>
        <span className="tool-icon"><Icon name={Object.hasOwn(icons, call.tool) ? icons[call.tool]! : "gear"} /></span>
        <span className="tool-name">{call.tool}</span>
        <span className="tool-subject">{visible(subject(call))}</span>
        {changedBy && <span className="chip" title={`changed by ${changedBy}`}>{changedBy}</span>}
        <span className="tool-state">
          {busy && <span className="spinner" aria-hidden="true" />}
          {call.state === "done" && call.durationMs !== null ? duration(call.durationMs) : verbs[call.state]}
        </span>
        <span className={open ? "turn-icon open" : "turn-icon"}><Icon name="chevron" /></span>
      </button>
      {open && <div className="tool-body"><Body call={call} session={session} /></div>}
    </div>
  );
});
