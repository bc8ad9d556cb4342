import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { Icon, type IconName } from "./Icon";

export interface MenuItem {
  label: string;
  icon?: IconName;
  danger?: boolean;
  run(): void;
}

/** A button that opens a short menu; arrow keys walk, Escape closes. The menu is in the top layer: nothing cuts it off. */
export function Menu({ label, items }: { label: string; items: MenuItem[] }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const m = menu.current;
    if (!open || !m) return;
    m.showPopover();
    const at = root.current!.getBoundingClientRect();
    const below = at.bottom + m.offsetHeight + 8 <= window.innerHeight;
    m.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - m.offsetHeight - 4)}px`;
    m.style.left = `${Math.max(8, Math.min(window.innerWidth - m.offsetWidth - 8, at.right - m.offsetWidth))}px`;
    m.querySelector<HTMLElement>("[role=menuitem]")?.focus();
  }, [open]);
  useEffect(() => {
    if (!open) return;
    const outside = (e: Event) => { if (![root, menu].some((r) => r.current?.contains(e.target as Node))) setOpen(false); };
    const events = ["mousedown", "scroll", "resize"];
    for (const name of events) window.addEventListener(name, outside, true);
    return () => { for (const name of events) window.removeEventListener(name, outside, true); };
  }, [open]);
  const close = () => {
    setOpen(false);
    (root.current?.closest<HTMLElement>("[role=treeitem]") ?? root.current?.querySelector<HTMLElement>("button"))?.focus(); // in a tree the item has the focus
  };
  const onKey = (e: React.KeyboardEvent) => {
    const all = [...(menu.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to = e.key === "ArrowDown" ? at + 1 : e.key === "ArrowUp" ? at + all.length - 1 : e.key === "Home" ? 0 : e.key === "End" ? all.length - 1 : -1;
    if (to >= 0) {
      e.preventDefault();
      all[to % all.length]?.focus();
    } else if (e.key === "Escape" || e.key === "Tab") {
      e.stopPropagation();
      close();
    }
  };
  return (
    <div className="menu-root" ref={root} onKeyDown={open ? onKey : undefined}>
      <button type="button" className="icon-button" aria-label={label} title={label} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}><Icon name="more" /></button>
      {open && createPortal( // the text of what the button is in does not grow by the menu's
        <div className="menu" role="menu" aria-label={label} ref={menu} popover="manual">
          {items.map((i) => (
            <button key={i.label} type="button" role="menuitem" tabIndex={-1} className={i.danger ? "danger" : undefined} onClick={() => { close(); i.run(); }}>
              {i.icon && <Icon name={i.icon} />} {i.label}
            </button>
          ))}
        </div>, document.body,
      )}
    </div>
  );
}
