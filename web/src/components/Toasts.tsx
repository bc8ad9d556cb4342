import { useLayoutEffect, useState } from "react";
import { Boundary } from "./Boundary";
import { Icon } from "./Icon";
import { useStore } from "../lib/store";
import { dismiss, toasts, type Toast } from "../lib/ui";

/** It goes by itself, but not while somebody points at it or is in it. */
function Line({ t }: { t: Toast }) {
  const [held, setHeld] = useState(false);
  useLayoutEffect(() => {
    if (t.sticky || held) return;
    const timer = setTimeout(() => dismiss(t.id), t.kind === "error" ? 9000 : 5000);
    return () => clearTimeout(timer);
  }, [held]);
  return (
    <div className={`toast ${t.kind}`} data-held={held || undefined} role={t.kind === "error" || t.kind === "warning" ? "alert" : "status"}
      onMouseEnter={() => setHeld(true)} onMouseLeave={() => setHeld(false)} onFocus={() => setHeld(true)} onBlur={() => setHeld(false)}>
      <span className="toast-text" dir="auto">{t.text}</span>
      {t.action && <button type="button" className="button" onClick={() => { t.action!.run(); dismiss(t.id); }}>{t.action.label}</button>}
      <button type="button" className="icon-button" aria-label="Dismiss" onClick={() => dismiss(t.id)}><Icon name="close" /></button>
    </div>
  );
}

export function Toasts() {
  const all = useStore(toasts);
  return <div className="toasts">{all.map((t) => <Boundary key={t.id} what="A message" owner="afloat" instead={null}><Line t={t} /></Boundary>)}</div>;
}
