import { memo, useEffect, useMemo, useState } from "react";
import { Icon } from "./Icon";

type Highlighter = typeof import("../lib/highlight");
let loaded: Highlighter | null = null;

/** Text in the colours of its language, once the highlighter is there. */
export const Colours = memo(function Colours({ text, lang }: { text: string; lang: string }) {
  const [tool, setTool] = useState(loaded);
  useEffect(() => {
    let on = true;
    if (!tool && lang) void import("../lib/highlight").then((m) => { loaded = m; if (on) setTool(() => m); });
    return () => { on = false; };
  }, [tool, lang]);
  const spans = useMemo(() => tool?.highlight(text, lang.toLowerCase().split(/[\s:{,]/)[0] ?? "") ?? null, [tool, text, lang]);
  if (!spans) return <>{text}</>;
  return <>{spans.map((s, i) => (s.kind ? <span key={i} className={`hl-${s.kind}`}>{s.text}</span> : s.text))}</>;
});

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button type="button" className="icon-button" aria-label={done ? "Copied" : label} title={label}
      onClick={() => void navigator.clipboard.writeText(text).then(() => setDone(true), () => undefined)}>
      <Icon name={done ? "check" : "copy"} />
    </button>
  );
}

export function Code({ text, lang }: { text: string; lang: string }) {
  return (
    <div className="code">
      <div className="code-head"><span>{lang || "text"}</span><CopyButton text={text} label="Copy code" /></div>
      <pre tabIndex={0}><code><Colours text={text} lang={lang} /></code></pre>
    </div>
  );
}
