import { useEffect, useRef, useState } from "react";
import { Args } from "./Args";
import { Diff } from "./Diff";
import { Colours } from "./Code";
import { Icon } from "./Icon";
import { call, explain, Problem } from "../lib/client";
import type { PermissionItem, QuestionItem } from "../lib/conversation";
import { toast } from "../lib/ui";
import { visible } from "../lib/visible";

async function answer(what: Promise<unknown>): Promise<boolean> {
  try {
    await what;
    return true;
  } catch (e) {
    if (e instanceof Problem && e.code === "ALREADY_DECIDED") return true;
    toast(explain(e), "error");
    return false;
  }
}

/** Keys for the card that waits longest: plain ones in the conversation and outside text fields, with Alt everywhere. */
function useKeys(on: boolean, act: (key: string) => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    if (!on) return;
    const fn = (e: KeyboardEvent) => {
      const at = e.target instanceof HTMLElement ? e.target : document.body;
      const elsewhere = at !== document.body && (at.closest(".main") === null || at.matches("input, textarea, select") || at.isContentEditable);
      if (e.repeat || e.ctrlKey || e.metaKey || (elsewhere && !e.altKey)) return; // a held key would answer the next question unread
      const key = e.code.startsWith("Digit") ? e.code.slice(5) : e.key.toLowerCase();
      if (!/^[1-9dn]$/.test(key)) return;
      e.preventDefault();
      latest.current(key);
    };
    document.addEventListener("keydown", fn);
    return () => document.removeEventListener("keydown", fn);
  }, [on]);
}

const short: Record<string, string> = {
  once: "Allow once", exact: "Always this", prefix: "Always of this form", tool: "All in this session", project: "All in this project",
};

/** All that a call would do: a command, the other arguments, and what they change. Of a file tool the diff says what its arguments say. */
function Asked({ item }: { item: PermissionItem }) {
  const input = item.input as Record<string, unknown> | null;
  const named = typeof input === "object" && input !== null && !Array.isArray(input);
  const cmd = named && typeof input.cmd === "string" ? input.cmd : null;
  const told = item.diff && ["write_file", "edit_file"].includes(item.tool) ? ["path", "content", "old", "new"] : [];
  const rest = named ? Object.entries(input).filter(([k]) => !(k === "cmd" && cmd !== null) && !told.includes(k)) : [];
  return (
    <>
      {item.by === "sandbox" && <p>This file runs outside of the sandbox.</p>}
      {cmd !== null && <pre className="tool-cmd" tabIndex={0}><span aria-hidden="true">$ </span><Colours text={visible(cmd)} lang="bash" /></pre>}
      {named ? <Args all={rest} /> : <pre className="tool-cmd" tabIndex={0}>{visible(JSON.stringify(item.input ?? null, null, 2))}</pre>}
      {item.by === "mcp" && <p>Its server describes this tool in other words than those that you agreed to:</p>}
      {item.diff && <Diff diff={item.diff} />}
    </>
  );
}

export function PermissionCard({ item, session, keys }: { item: PermissionItem; session: string; keys: boolean }) {
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const open = item.decision === null;
  const decide = async (decision: "allow" | "deny", remember?: string) => {
    setBusy(true);
    await answer(call("session.permission", {
      id: session, request_id: item.requestId, decision, remember, reason: decision === "deny" && reason ? reason : undefined,
    }));
    setBusy(false);
  };
  useKeys(keys && open && !busy, (key) => {
    const offer = item.offers[Number(key) - 1];
    if (offer) void decide("allow", offer.remember);
    else if (key === "d" || key === "n") void decide("deny");
  });
  if (!open) {
    const d = item.decision!;
    const words = d.decision === "allow" ? `Allowed ${item.tool}` : d.decision === "deny" ? `Denied ${item.tool}` : `${item.tool} was not decided`;
    return (
      <div className={`asked ${d.decision}`}>
        <Icon name={d.decision === "allow" ? "check" : "close"} />
        <span>{words}{d.remember && d.remember !== "once" ? `, ${short[d.remember]?.toLowerCase() ?? d.remember}` : ""}{d.reason ? `: ${d.reason}` : ""}</span>
      </div>
    );
  }
  return (
    <section className="ask" aria-label={`Permission for ${item.tool}`}>
      <h3><Icon name="warning" /> May <code>{visible(item.tool)}</code>{item.task && " of a subagent"} run?</h3>
      <Asked item={item} />
      <ul className="offers">
        {item.offers.map((o, i) => (
          <li key={o.remember}>
            <button type="button" className={i === 0 ? "button primary" : "button"} disabled={busy} onClick={() => void decide("allow", o.remember)}>
              <kbd>{i + 1}</kbd> {short[o.remember] ?? `Allow ${o.remember}`}
            </button>
            <span className="covers">{visible(o.covers)}</span>
          </li>
        ))}
      </ul>
      <div className="deny">
        <button type="button" className="button danger" disabled={busy} onClick={() => void decide("deny")}><kbd>D</kbd> Deny</button>
        <input aria-label="Reason for the model" placeholder="Reason for the model (optional)" value={reason}
          onChange={(e) => setReason(e.target.value)}
          onKeyDown={(e) => { if (e.key === "Enter") void decide("deny"); }} />
      </div>
    </section>
  );
}

export function QuestionCard({ item, session, keys }: { item: QuestionItem; session: string; keys: boolean }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const open = item.answer === null;
  const say = async (value: string) => {
    setBusy(true);
    await answer(call("session.answer", { id: session, question_id: item.questionId, answer: value }));
    setBusy(false);
  };
  useKeys(keys && open && !busy, (key) => {
    const choice = item.choices[Number(key) - 1];
    if (choice !== undefined) void say(choice);
  });
  return (
    <section className={open ? "ask question" : "ask question done"} aria-label="Question">
      <h3><Icon name="help" /> <span dir="auto">{item.question}</span></h3>
      {open ? (
        <>
          {item.choices.length > 0 && (
            <div className="choices">
              {item.choices.map((c, i) => (
                <button key={i} type="button" className="button" disabled={busy} onClick={() => void say(c)}><kbd>{i + 1}</kbd> {c}</button>
              ))}
            </div>
          )}
          <form className="deny" onSubmit={(e) => { e.preventDefault(); if (text.trim()) void say(text.trim()); }}>
            <input aria-label="Answer" placeholder={item.choices.length > 0 ? "Something else" : "Answer"} value={text} onChange={(e) => setText(e.target.value)} />
            <button type="submit" className="button primary" disabled={busy || !text.trim()}>Answer</button>
          </form>
        </>
      ) : item.answer !== "" && <p className="answered">{item.answer}</p>}
    </section>
  );
}
