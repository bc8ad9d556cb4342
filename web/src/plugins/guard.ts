// Plugins that never give the page back: an endless loop in a module or in its first render.
//
// A page cannot stop such a loop. What it can do is not to run into it again, or no browser could open the page until
// the plugin is gone. While versions are being loaded their marks are in the browser's storage:
//
//     enter ──> import, swap, the frame after it ──> leave            a page that is closed takes its marks out
//       └ renewed each second; older than STILL_MS: the page that wrote it stood still
//
// One mark that was left is the culprit, and that version is not loaded any more. Of several the page loads one after
// the other, each after the frame of the one before: if it stands still again, one mark is left.

const STILL_MS = 3000;
const PREFIX = "afloat.loading.";
const own = `${PREFIX}${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
const loading = new Set<string>();
let timer = 0;

interface Left {
  at: number;
  marks: string[];
}

function write(): void {
  clearInterval(timer);
  try {
    if (loading.size === 0) localStorage.removeItem(own);
    else localStorage.setItem(own, JSON.stringify({ at: Date.now(), marks: [...loading] } satisfies Left));
  } catch {
    return; // a browser without storage has no guard
  }
  if (loading.size > 0) timer = window.setInterval(write, 1000);
}

/** The marks that pages left which stood still, page by page. They are taken out. */
function left(): string[][] {
  const found: string[][] = [];
  try {
    for (const key of Object.keys(localStorage).filter((k) => k.startsWith(PREFIX) && k !== own)) {
      const { at, marks } = JSON.parse(localStorage.getItem(key)!) as Left;
      if (Date.now() - at < STILL_MS) continue;
      localStorage.removeItem(key);
      found.push(marks);
    }
  } catch {
    // the same
  }
  return found;
}

const STOOD = "afloat.stood"; // versions that are not loaded any more, also by later pages
const stood = new Set<string>();
const suspects = new Set<string>();

function keep(): void {
  try {
    if (stood.size > 0) localStorage.setItem(STOOD, JSON.stringify([...stood].slice(-50)));
    else localStorage.removeItem(STOOD);
  } catch {
    // the same
  }
}
let queue: Promise<unknown> = Promise.resolve();

/** Look once, when the page starts. */
export function startGuard(): void {
  try {
    for (const mark of JSON.parse(localStorage.getItem(STOOD) ?? "[]") as string[]) stood.add(mark);
  } catch {
    // nothing kept
  }
  for (const marks of left()) for (const mark of marks) (marks.length === 1 ? stood : suspects).add(mark);
  keep();
  window.addEventListener("pagehide", () => { loading.clear(); write(); });
}

/** The end of the next frame; a page that nobody sees has none. */
const frame = (): Promise<void> => new Promise((done) => {
  requestAnimationFrame(() => setTimeout(done, 0));
  setTimeout(done, 1000);
});

/** Load versions, each by its mark; what `load` gives ends when the version is in place. */
export function guarded(versions: readonly { mark: string; load(): Promise<void> }[]): Promise<void>[] {
  const enter = (marks: string[]) => { for (const m of marks) loading.add(m); write(); };
  const run = async ({ mark, load }: { mark: string; load(): Promise<void> }) => {
    await load();
    await frame();
    loading.delete(mark);
    write();
  };
  enter(versions.map((v) => v.mark).filter((m) => !suspects.has(m)));
  return versions.map((v) => {
    if (!suspects.has(v.mark)) return run(v);
    const turn = queue.then(() => { suspects.delete(v.mark); enter([v.mark]); return run(v); });
    queue = turn;
    return turn;
  });
}

/** Did a page stand still while it loaded this version? A browser that was killed just then looks the same. */
export const stoodStill = (mark: string): boolean => stood.has(mark);

/** Somebody wants it all the same. */
export function absolve(mark: string): void {
  stood.delete(mark);
  keep();
}
