// The one event stream of the page: GET /events, read for as long as the page is open.
//
// After a break it goes on after the last id that was seen (`Last-Event-ID`), so nothing is lost or seen
// twice. Where the hub no longer has that history it says `stream.gap`; the readers that keep lists then
// load them again (`onResync`), and conversations catch up by the `seq` of their journal, which is exact.
//
// fetch instead of EventSource: a 401 can be told from a hub that is away, and silence is noticed. The
// hub sends a comment every 15 s; after 40 s without a byte (a machine that slept) we connect anew.
import { createStore } from "./store";
import type { HubEvent } from "./hub";

export type Link = "connecting" | "online" | "offline" | "refused";
export const link = createStore<Link>("connecting");

type Reader = (event: HubEvent) => void;
const exact = new Map<string, Set<Reader>>();
const globs = new Set<{ prefix: string; fn: Reader }>();
const resyncs = new Set<() => void>();

/** Watch events of a type; `plugin.*` and `*` are patterns. Returns what ends it. */
export function onEvent(type: string, fn: Reader): () => void {
  if (type.endsWith("*")) {
    const entry = { prefix: type.slice(0, -1), fn };
    globs.add(entry);
    return () => globs.delete(entry);
  }
  const readers = exact.get(type) ?? new Set();
  exact.set(type, readers);
  readers.add(fn);
  return () => readers.delete(fn);
}

/** Called after the first connection and after every gap: load again what is kept from lists. */
export function onResync(fn: () => void): () => void {
  resyncs.add(fn);
  return () => resyncs.delete(fn);
}

/** Called whenever the stream is there again, with a gap or without: try again what failed meanwhile. */
export function onOnline(fn: () => void): () => void {
  return link.subscribe(() => { if (link.get() === "online") fn(); });
}

function guard(fn: () => void): void {
  try {
    fn();
  } catch (e) {
    reportError(e); // a reader that throws stops no other
  }
}

const RECENT = 200;
let recent: HubEvent[] = [];
/** The last events of this page's life, without pieces of answers: for the view of events. */
export const recentEvents = (): HubEvent[] => recent.slice(-RECENT);

/** Those and what the hub had before the page was opened. */
export async function pastEvents(): Promise<HubEvent[]> {
  const first = recent[0]?.id ?? (lastId === "" ? Infinity : Number(lastId) + 1);
  let found: HubEvent[] = [];
  for (let after = Number.isFinite(first) ? Math.max(0, first - 300) : 0, pages = 0; pages < 20; pages++) {
    const answer = await fetch(`/events?after=${after}&limit=1000`, { headers: { Accept: "application/json" } });
    const page = (answer.ok ? await answer.json() : { events: [], next: after }) as { events: HubEvent[]; next: number };
    found = [...found, ...page.events].filter((e) => e.type !== "message.delta" && e.type !== "log" && (e.id ?? 0) < first).slice(-RECENT);
    if (page.events.length < 1000) break;
    after = page.next;
  }
  return found;
}

export function deliver(event: HubEvent): void {
  if (event.type !== "message.delta" && recent.push(event) > 2 * RECENT) recent = recent.slice(-RECENT);
  for (const fn of [...(exact.get(event.type) ?? [])]) guard(() => fn(event));
  for (const { prefix, fn } of [...globs]) if (event.type.startsWith(prefix)) guard(() => fn(event));
}

const resync = () => { for (const fn of [...resyncs]) guard(fn); };

// ---- server-sent events ------------------------------------------------------------------------

/** Cut a text stream into events; `data` lines are joined, comments and other fields passed over. */
export class Frames {
  private rest = "";
  private data: string[] = [];
  private id = "";
  constructor(private readonly emit: (id: string, data: string) => void) {}
  push(text: string): void {
    this.rest += text;
    let at: number;
    while ((at = this.rest.indexOf("\n")) >= 0) {
      this.line(this.rest.slice(0, at).replace(/\r$/, ""));
      this.rest = this.rest.slice(at + 1);
    }
  }
  private line(line: string): void {
    if (line === "") {
      if (this.data.length > 0) this.emit(this.id, this.data.join("\n"));
      this.data = [];
    } else if (line.startsWith("data:")) this.data.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line.startsWith("id:")) this.id = line.slice(3).trim();
  }
}

const SILENCE_MS = 40_000;
let lastId = "";
let stop: AbortController | null = null;
let wake: (() => void) | null = null;

function take(id: string, data: string): void {
  const event = JSON.parse(data) as HubEvent;
  if (id !== "") {
    if (lastId !== "" && Number(id) <= Number(lastId) && event.type !== "stream.gap") return; // seen
    lastId = id;
  }
  if (event.type === "stream.gap") resync();
  else deliver(event);
}

/** Read until the stream ends. */
async function read(signal: AbortController): Promise<void> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (lastId !== "") headers["Last-Event-ID"] = lastId;
  const answer = await fetch("/events", { headers, signal: signal.signal, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) {
    link.set("refused");
    throw new Error("refused");
  }
  if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
  const first = lastId === "";
  link.set("online");
  if (first) resync(); // the stream is open: what changes from now on comes as events
  const frames = new Frames(take);
  const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let timer = 0;
  const watch = () => { clearTimeout(timer); timer = window.setTimeout(() => signal.abort(), SILENCE_MS); };
  try {
    for (watch(); ;) {
      const { done, value } = await text.read();
      if (done) return;
      watch();
      frames.push(value);
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Wait, but not when the network comes back or somebody looks at the page again. */
function pause(ms: number): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(() => { wake = null; done(); }, ms);
    wake = () => { clearTimeout(timer); wake = null; done(); };
  });
}

/** Connect now instead of after the pause; the banner's button. */
export function retryNow(): void {
  wake?.();
}

export async function startEvents(): Promise<void> {
  window.addEventListener("online", retryNow);
  window.addEventListener("offline", () => stop?.abort()); // the stream may be dead without knowing it
  document.addEventListener("visibilitychange", () => { if (!document.hidden) retryNow(); });
  for (let failures = 0; ; ) {
    stop = new AbortController();
    const began = Date.now();
    try {
      await read(stop);
    } catch {
      // the state says it
    }
    if (link.get() !== "refused") link.set("offline");
    failures = Date.now() - began > 5000 ? 0 : failures + 1;
    await pause(Math.min(4000, 150 * 2 ** Math.min(failures, 5)) * (0.8 + Math.random() * 0.4));
  }
}
