import { memo, useMemo } from "react";
import { visible } from "../lib/visible";

interface Line { kind: "add" | "del" | "hunk" | "meta" | "same"; text: string; old?: number; now?: number }
interface File { path: string; lines: Line[]; added: number; removed: number }

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const ENCODED = /^([A-Za-z][!-~]+|(literal|delta) \d+|)$/; // a line of a binary patch: none has a sign or a head like the others
const pathOf = (text: string): string => text.replace(/^[ab]\//, "").replace(/\t.*$/, "");

/** The path in `diff --git a/PATH b/PATH`. A moved file has two: the lines below name them. */
function gitPath(text: string): string {
  const names = text.slice("diff --git ".length);
  const half = (names.length - 1) / 2;
  const [before, after] = [names.slice(0, half), names.slice(half + 1)].map(pathOf);
  return before === after ? before! : names;
}

/** Reads a diff line by line. Only the counts of a hunk's head tell which lines are its own: below it `--- x` removes the line `-- x`. */
class Reader {
  readonly files: File[] = [];
  private old = 0; // numbers of the next lines
  private now = 0;
  private oldLeft = 0; // lines of the hunk that are still to come
  private nowLeft = 0;
  private opened: "git" | "---" | null = null; // the line that opened the file, while its head may go on
  private encoded = false; // bytes of a binary file follow

  private file(path: string): void {
    this.files.push({ path, lines: [], added: 0, removed: 0 });
  }
  private add(line: Line): void {
    if (this.files.length === 0) this.file("");
    const at = this.files.at(-1)!;
    at.lines.push(line);
    if (line.kind === "add") at.added++;
    if (line.kind === "del") at.removed++;
  }
  private changed(text: string): void {
    const sign = text[0];
    if (sign === "\\") return this.add({ kind: "meta", text });
    const kind = sign === "+" ? "add" : sign === "-" ? "del" : "same";
    if (kind !== "add") this.oldLeft--;
    if (kind !== "del") this.nowLeft--;
    this.add({ kind, text: text.slice(1), old: kind === "add" ? undefined : this.old++, now: kind === "del" ? undefined : this.now++ });
  }
  private hunk(text: string, at: RegExpExecArray): void {
    [this.old, this.oldLeft, this.now, this.nowLeft] = [at[1], at[2] ?? 1, at[3], at[4] ?? 1].map(Number) as [number, number, number, number];
    this.opened = null;
    this.add({ kind: "hunk", text });
  }
  private head(text: string): void {
    const path = pathOf(text.slice(4));
    const goesOn = this.opened === "git" || (this.opened === "---" && text.startsWith("+++ "));
    if (!goesOn) this.file(path);
    else if (path !== "/dev/null") this.files.at(-1)!.path = path;
    this.opened = text.startsWith("--- ") ? "---" : null;
  }
  /** A line outside of the hunks. */
  private outside(text: string): void {
    const hunk = HUNK.exec(text);
    if (text.startsWith("diff --git ")) {
      this.file(gitPath(text));
      this.opened = "git";
    } else if (hunk) this.hunk(text, hunk);
    else if (/^(---|\+\+\+) /.test(text)) this.head(text);
    else if (text === "" || /^(index|similarity index|dissimilarity index) /.test(text)) return;
    else if (/^[-+\\]/.test(text)) this.changed(text); // more than its head has counted
    else {
      const moved = /^(?:rename|copy) to (.*)/.exec(text);
      if (moved && this.files.length > 0) this.files.at(-1)!.path = moved[1]!;
      this.encoded = text === "GIT binary patch";
      this.add({ kind: "meta", text });
    }
  }
  take(text: string): void {
    const within = (this.oldLeft > 0 || this.nowLeft > 0) && (text === "" || " +-\\".includes(text[0]!));
    if (within) return this.changed(text);
    this.oldLeft = this.nowLeft = 0;
    this.encoded &&= ENCODED.test(text);
    if (!this.encoded) this.outside(text);
  }
}

/** Lines of a unified diff with their numbers, file by file. */
export function parseDiff(diff: string): File[] {
  const reader = new Reader();
  for (const text of diff.replace(/\n$/, "").split("\n")) reader.take(text);
  return reader.files;
}

const MOST = 2000; // lines shown of one file

export const Diff = memo(function Diff({ diff, heads = true }: { diff: string; heads?: boolean }) {
  const files = useMemo(() => parseDiff(diff), [diff]);
  return (
    <div className="diff">
      {files.map((f, i) => (
        <div key={i} className="diff-file">
          {heads && f.path && (
            <div className="diff-head">
              <span className="mono">{visible(f.path)}</span>
              <span className="diff-count"><ins>+{f.added}</ins> <del>−{f.removed}</del></span>
            </div>
          )}
          <div className="diff-body" tabIndex={0} role="group" aria-label={f.path ? `changes of ${f.path}` : "changes"}>
            {f.lines.slice(0, MOST).map((l, n) => (
              <div key={n} className={`diff-line ${l.kind}`}>
                <span className="diff-no" aria-hidden="true">{l.kind === "hunk" ? "" : (l.now ?? l.old ?? "")}</span>
                <span className="diff-sign">{l.kind === "add" ? "+" : l.kind === "del" ? "−" : " "}</span>
                <span className="diff-text">{visible(l.text) || " "}</span>
              </div>
            ))}
            {f.lines.length > MOST && <div className="diff-line meta">{f.lines.length - MOST} more lines</div>}
          </div>
        </div>
      ))}
    </div>
  );
});
