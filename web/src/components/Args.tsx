import { visible } from "../lib/visible";

const LONG = 200; // letters that may need more room than an argument has: then keys can scroll it

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  const line = JSON.stringify(value);
  return line.length > LONG ? JSON.stringify(value, null, 2) : line;
}

function Value({ value }: { value: unknown }) {
  const text = textOf(value);
  return <dd tabIndex={text.length > LONG || text.includes("\n") ? 0 : undefined}>{visible(text)}</dd>;
}

/** Arguments of a call by their names. */
export function Args({ all }: { all: readonly (readonly [string, unknown])[] }) {
  if (all.length === 0) return null;
  return <dl className="tool-args">{all.map(([k, v]) => <div key={k}><dt>{visible(k)}</dt><Value value={v} /></div>)}</dl>;
}
