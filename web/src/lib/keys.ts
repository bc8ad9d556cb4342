// Keys of the whole page, and shortcuts of commands that plugins contribute.
import { useEffect } from "react";
import { callFailed } from "../components/Boundary";
import { newSessionDialog } from "./actions";
import { hub } from "./hub";
import { registry } from "./registry";
import { sessions } from "./sessions";
import { cover, currentSession, openPanel, palette, sidebarShown } from "./ui";

const typing = (e: KeyboardEvent): boolean =>
  e.target instanceof HTMLElement && (e.target.matches("input, textarea, select") || e.target.isContentEditable || e.target.closest(".xterm") !== null);

/** "Ctrl+Shift+P" of an event; Cmd counts as Ctrl. Shift that only makes a character, as in "?", is a part of that. */
function combo(e: KeyboardEvent): string {
  const letter = e.key.length === 1 && e.key.toUpperCase() !== e.key.toLowerCase();
  const key = letter ? e.key.toUpperCase() : e.key;
  return [(e.ctrlKey || e.metaKey) && "Ctrl", e.altKey && "Alt", e.shiftKey && (letter || e.key.length > 1) && "Shift", key].filter(Boolean).join("+");
}

function step(by: number): void {
  const { rows } = sessions.get();
  const at = rows.findIndex((r) => r.id === currentSession.get());
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
  if (next) currentSession.set(next.id);
}

/** Move the focus to the next part of the page. */
function nextPart(back: boolean): void {
  const parts = [".sidebar [role=tab][aria-selected=true]", ".scroller", "[aria-label=Message]", ".dock-area .view-body, .dock-area [tabindex='0']"]
    .map((s) => document.querySelector<HTMLElement>(s)).filter((e): e is HTMLElement => e !== null && e.offsetParent !== null);
  const here = parts.findIndex((p) => p.contains(document.activeElement) || p.closest(".sidebar, .dock-area")?.contains(document.activeElement));
  parts[(here + (back ? parts.length - 1 : 1)) % parts.length]?.focus();
}

const own: Record<string, () => void> = {
  "Ctrl+K": () => palette.set((p) => ({ open: !p.open, mode: "commands", query: "" })),
  "Ctrl+J": () => newSessionDialog.set(true),
  "Ctrl+B": () => sidebarShown.set((s) => !s),
  "Alt+ArrowUp": () => step(-1),
  "Alt+ArrowDown": () => step(1),
  "F6": () => nextPart(false),
  "Shift+F6": () => nextPart(true),
};
const bare: Record<string, () => void> = {
  "?": () => openPanel("help"),
  "/": () => document.querySelector<HTMLElement>("[aria-label=Message]")?.focus(),
};

export function useKeys(): void {
  useEffect(() => {
    const fn = (e: KeyboardEvent) => {
      if (e.defaultPrevented || e.isComposing) return;
      const name = combo(e);
      const act = own[e.key.length === 1 ? name.replace("Shift+", "") : name] ?? // Ctrl+Shift+K is Ctrl+K: it leads out of a terminal
         (typing(e) || document.querySelector("dialog[open]") ? undefined : bare[name]);
      if (act) {
        e.preventDefault();
        act();
        return;
      }
      if (e.key === "Escape" && cover.get() !== "none") cover.set("none");
      const plain = !e.ctrlKey && !e.metaKey && !e.altKey;
      const command = registry.list("commands").find((c) => c.owner !== "afloat" && c.shortcut?.replace(/Cmd|Meta|Mod/i, "Ctrl").replace(/\s/g, "").toLowerCase() === name.toLowerCase());
      if (command && !(plain && typing(e))) {
        e.preventDefault();
        void Promise.resolve().then(() => command.run(hub)).catch((x: unknown) => callFailed(command.owner, command.title, x));
      }
    };
    document.addEventListener("keydown", fn);
    return () => document.removeEventListener("keydown", fn);
  }, []);
}
