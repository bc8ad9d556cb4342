import { useEffect, useRef, type ReactNode } from "react";

/** A modal dialog: the browser's own, which keeps the focus inside, closes with Escape and gives the focus back. */
export function Dialog({ label, onClose, children, className }: { label: string; onClose(): void; children: ReactNode; className?: string }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current!;
    const before = document.activeElement;
    if (!d.open) d.showModal();
    return () => {
      d.close(); // it is out of the document by now, so the browser gives no focus back
      if (document.activeElement === document.body && before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={ref} aria-label={label} className={className ?? "dialog"} onCancel={(e) => { e.preventDefault(); onClose(); }}
      onMouseDown={(e) => { if (e.target === ref.current) onClose(); }}>
      {children}
    </dialog>
  );
}

/** Ask before something is lost. */
export function Confirm({ title, text, action, onYes, onClose }: { title: string; text: string; action: string; onYes(): void; onClose(): void }) {
  return (
    <Dialog label={title} onClose={onClose}>
      <h2>{title}</h2>
      <p>{text}</p>
      <div className="dialog-foot">
        <button type="button" className="button" onClick={onClose}>Cancel</button>
        <button type="button" className="button danger" autoFocus onClick={() => { onClose(); onYes(); }}>{action}</button>
      </div>
    </Dialog>
  );
}
