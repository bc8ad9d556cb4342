// A terminal of the hub: xterm.js over the WebSocket of /pty/{id}.
//
// Binary frames are the terminal's bytes, both ways; text frames are control. The server begins with a
// snapshot of the screen. After a break we go on from the byte we had (`?offset=`), so neither a restart of
// the hub nor a laptop's sleep loses or repeats output; where the hub no longer has it, it sends a snapshot.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal, type ITheme } from "@xterm/xterm";
import { useEffect, useRef, useState } from "react";
import { request } from "../lib/client";
import { styleNonce } from "../lib/nonce";
import type { PanelProps } from "../lib/registry";
import { useStore } from "../lib/store";
import { loadTerminals, terminalName, terminals } from "../lib/terminals";
import { theme, toast } from "../lib/ui";

// xterm makes <style> elements of its own; the page's policy wants its nonce on them
const make = document.createElement.bind(document);
document.createElement = ((tag: string, options?: ElementCreationOptions) => {
  const element = make(tag, options);
  if (tag === "style") element.nonce = styleNonce();
  return element;
}) as typeof document.createElement;

const dark: ITheme = {
  background: "#10151a", foreground: "#dde4ea", cursor: "#58c4bc", cursorAccent: "#10151a", selectionBackground: "#24524e",
  black: "#1a2128", red: "#ff8a80", green: "#74cf92", yellow: "#e8b860", blue: "#86bdf5", magenta: "#d79bf0", cyan: "#58c4bc", white: "#c9d2da",
  brightBlack: "#7c8a97", brightRed: "#ffb0a8", brightGreen: "#9be3b2", brightYellow: "#f3d08a", brightBlue: "#aed4fa", brightMagenta: "#e6bff7", brightCyan: "#8adbd5", brightWhite: "#ffffff",
};
const light: ITheme = {
  background: "#fbfcfc", foreground: "#1b2229", cursor: "#0a6b6b", cursorAccent: "#fbfcfc", selectionBackground: "#bfe3e0",
  black: "#1b2229", red: "#b3261e", green: "#1a6e38", yellow: "#7d5200", blue: "#0b5cad", magenta: "#8b2f97", cyan: "#0a6b6b", white: "#56616c",
  brightBlack: "#56616c", brightRed: "#c93c33", brightGreen: "#23814a", brightYellow: "#8f6200", brightBlue: "#1a6fc4", brightMagenta: "#9d44a9", brightCyan: "#0e7c7c", brightWhite: "#10151a",
};
const isDark = matchMedia("(prefers-color-scheme: dark)");
const colours = (): ITheme => (theme.get() === "dark" || (theme.get() === "system" && isDark.matches) ? dark : light);

/** Keys that are the page's also in a terminal: without them a keyboard could not leave it. */
const leaves = (e: KeyboardEvent): boolean => e.key === "F6" || ((e.metaKey || (e.ctrlKey && e.shiftKey)) && e.key.toLowerCase() === "k");

interface Control {
  type: string;
  offset?: number;
  status?: number;
}

export default function TerminalView({ params, setTitle, close }: PanelProps) {
  const id = String(params.id ?? "");
  const host = useRef<HTMLDivElement>(null);
  const row = useStore(terminals, (all) => all?.find((t) => t.id === id));
  const [state, setState] = useState<"open" | "away" | "ended">("open");

  useEffect(() => { if (row) setTitle(terminalName(row)); }, [row]);
  useEffect(() => {
    const term = new Terminal({
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"), fontSize: 13, cursorBlink: false, scrollback: 5000, theme: colours(),
    });
    const fit = new FitAddon();
    const bytes = new TextEncoder();
    let socket: WebSocket | null = null;
    let offset: number | null = null;
    let timer = 0;
    let over = false;

    const size = () => { if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "resize", rows: term.rows, cols: term.cols })); };
    const connect = () => {
      const after = offset === null ? "" : `?offset=${offset}`;
      const s = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/pty/${encodeURIComponent(id)}${after}`);
      s.binaryType = "arraybuffer";
      socket = s;
      s.onopen = () => { setState("open"); size(); };
      let snapshot: number | null = null; // where its bytes, the next binary frame, leave off
      s.onmessage = (m: MessageEvent<string | ArrayBuffer>) => {
        if (typeof m.data !== "string") {
          offset = snapshot ?? (offset ?? 0) + m.data.byteLength;
          snapshot = null;
          term.write(new Uint8Array(m.data));
          return;
        }
        const control = JSON.parse(m.data) as Control;
        if (control.type === "snapshot") {
          term.reset();
          snapshot = control.offset ?? 0;
        } else if (control.type === "exit") {
          over = true;
          setState("ended");
          term.write(`\r\n\x1b[2m[ended with status ${control.status ?? "?"}]\x1b[0m\r\n`);
        }
      };
      s.onclose = () => {
        if (over || socket !== s) return;
        setState("away");
        timer = window.setTimeout(() => void loadTerminals().catch(() => undefined).then(() => {
          if (terminals.get()?.every((t) => t.id !== id)) { over = true; setState("ended"); }
          else if (socket === s) connect();
        }), 700);
      };
    };
    term.loadAddon(fit);
    term.open(host.current!);
    const resize = new ResizeObserver(() => { if (host.current?.offsetParent) { fit.fit(); size(); } });
    resize.observe(host.current!);
    fit.fit();
    term.onData((d) => { if (socket?.readyState === WebSocket.OPEN) socket.send(bytes.encode(d)); });
    term.onBinary((d) => { if (socket?.readyState === WebSocket.OPEN) socket.send(Uint8Array.from(d, (c) => c.charCodeAt(0))); });
    term.attachCustomKeyEventHandler((e) => !leaves(e));
    const paint = () => { term.options.theme = colours(); };
    isDark.addEventListener("change", paint);
    const painted = theme.subscribe(paint);
    connect();
    term.focus();
    return () => {
      const s = socket;
      socket = null;
      clearTimeout(timer);
      s?.close();
      resize.disconnect();
      isDark.removeEventListener("change", paint);
      painted();
      term.dispose();
    };
  }, [id]);

  const kill = () => request("DELETE", `/pty/${encodeURIComponent(id)}`).then(close, (e: unknown) => toast(String(e), "error"));
  return (
    <div className="view">
      <header className="view-head">
        <h2 className="mono">{row ? terminalName(row) : id}</h2><span className="view-sub" title={row?.cwd ?? undefined}>{row?.cwd}</span><span className="grow" />
        {state === "away" && <span className="chip warning">reconnecting</span>}
        {state !== "ended" && <button type="button" className="button danger" onClick={() => void kill()}>End</button>}
      </header>
      <div className="terminal-host" ref={host} />
    </div>
  );
}
