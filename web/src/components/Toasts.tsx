import { Icon } from "./Icon";
import { useStore } from "../lib/store";
import { dismiss, toasts } from "../lib/ui";

export function Toasts() {
  const all = useStore(toasts);
  return (
    <div className="toasts">
      {all.map((t) => (
        <div key={t.id} className={`toast ${t.kind}`} role={t.kind === "error" || t.kind === "warning" ? "alert" : "status"}>
          <span className="toast-text">{t.text}</span>
          {t.action && <button type="button" className="button" onClick={() => { t.action!.run(); dismiss(t.id); }}>{t.action.label}</button>}
          <button type="button" className="icon-button" aria-label="Dismiss" onClick={() => dismiss(t.id)}><Icon name="close" /></button>
        </div>
      ))}
    </div>
  );
}
