import { memo, useMemo } from "react";

interface Line { kind: "add" | "del" | "hunk" | "meta" | "same"; text: string; old?: number; now?: number }

/** Lines of a unified diff with their numbers. */
export function parseDiff(diff: string): { path: string; lines: Line[]; added: number; removed: number }[] {
  const files: { path: string; lines: Line[]; added: number; removed: number }[] = [];
  let old = 0;
  let now = 0;
  const file = (path: string) => { files.push({ path, lines: [], added: 0, removed: 0 }); return files.at(-1)!; };
  for (const text of diff.replace(/\n$/, "").split("\n")) {
    const last = files.at(-1);
    if (text.startsWith("+++ ")) {
      const path = text.slice(4).replace(/^b\//, "").replace(/\t.*$/, "");
      const open = last && last.lines.length === 0 ? last : file(path);
      open.path = path === "/dev/null" ? open.path : path;
    } else if (text.startsWith("--- ")) {
      file(text.slice(4).replace(/^a\//, "").replace(/\t.*$/, ""));
    } else if (text.startsWith("@@")) {
      const at = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(text);
      old = Number(at?.[1] ?? 1);
      now = Number(at?.[2] ?? 1);
      last?.lines.push({ kind: "hunk", text });
    } else if (!last || /^(diff |index |new file|deleted file|similarity|rename|old mode|new mode|Binary)/.test(text)) {
      continue;
    } else if (text.startsWith("+")) {
      last.added++;
      last.lines.push({ kind: "add", text: text.slice(1), now: now++ });
    } else if (text.startsWith("-")) {
      last.removed++;
      last.lines.push({ kind: "del", text: text.slice(1), old: old++ });
    } else if (text.startsWith("\\")) {
      last.lines.push({ kind: "meta", text });
    } else {
      last.lines.push({ kind: "same", text: text.slice(1), old: old++, now: now++ });
    }
  }
  return files;
}

const MOST = 2000; // lines shown of one file

export const Diff = memo(function Diff({ diff, heads = true }: { diff: string; heads?: boolean }) {
  const files = useMemo(() => parseDiff(diff), [diff]);
  return (
    <div className="diff">
      {files.map((f, i) => (
        <div key={i} className="diff-file">
          {heads && (
            <div className="diff-head">
              <span className="mono">{f.path}</span>
              <span className="diff-count"><ins>+{f.added}</ins> <del>−{f.removed}</del></span>
            </div>
          )}
          <div className="diff-body" tabIndex={0} role="group" aria-label={`changes of ${f.path}`}>
            {f.lines.slice(0, MOST).map((l, n) => (
              <div key={n} className={`diff-line ${l.kind}`}>
                <span className="diff-no" aria-hidden="true">{l.kind === "hunk" ? "" : (l.now ?? l.old ?? "")}</span>
                <span className="diff-sign">{l.kind === "add" ? "+" : l.kind === "del" ? "−" : " "}</span>
                <span className="diff-text">{l.text || " "}</span>
              </div>
            ))}
            {f.lines.length > MOST && <div className="diff-line meta">{f.lines.length - MOST} more lines</div>}
          </div>
        </div>
      ))}
    </div>
  );
});
