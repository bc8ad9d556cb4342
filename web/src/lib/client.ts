// Calls to the hub. `call("session.show", { id })` is typed from /openapi.json (api.gen.ts); `request()` is
// the untyped way for paths of plugins and for the palette.
import type { Answers } from "./answers";
import { routes, type Params } from "./api.gen";

/** An answer with a status of 400 or more, or none at all (`code` is then `UNREACHABLE`). */
export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, detail: string, readonly hint?: string) {
    super(detail);
    this.name = "Problem";
  }
}

interface Extra {
  signal?: AbortSignal;
  /** The hub answers the second request with the same key with its first answer. */
  once?: string;
}

export async function request(method: string, path: string, body?: unknown, extra: Extra = {}): Promise<unknown> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (extra.once) headers["Idempotency-Key"] = extra.once;
  let answer: Response;
  try {
    answer = await fetch(path, {
      method, headers, signal: extra.signal, credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (e) {
    if (extra.signal?.aborted) throw e;
    throw new Problem(0, "UNREACHABLE", "the hub does not answer");
  }
  const json = /[/+]json/.test(answer.headers.get("Content-Type") ?? "");
  const data: unknown = json ? await answer.json() : await answer.text();
  if (answer.ok) return data;
  const p = (json ? data : {}) as { code?: string; detail?: string; title?: string; hint?: string };
  throw new Problem(answer.status, p.code ?? "HTTP", p.detail ?? p.title ?? `status ${answer.status}`, p.hint);
}

export function call<K extends keyof Params & keyof Answers>(
  op: K, params: Params[K], extra: Extra = {},
): Promise<Answers[K]> {
  const [method, pattern, queryNames] = routes[op];
  const rest: Record<string, unknown> = { ...params };
  const path = pattern.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = encodeURIComponent(String(rest[name]));
    delete rest[name];
    return value;
  });
  const query = new URLSearchParams();
  for (const name of queryNames) {
    if (rest[name] !== undefined && rest[name] !== null) query.set(name, String(rest[name]));
    delete rest[name];
  }
  const url = query.size > 0 ? `${path}?${query}` : path;
  const body = Object.keys(rest).length > 0 ? rest : undefined;
  return request(method, url, body, extra) as Promise<Answers[K]>;
}

/** The same, or an exception that says `text` when it takes longer. */
export function within<T>(what: Promise<T>, ms: number, text: string): Promise<T> {
  return Promise.race([what, new Promise<T>((_, fail) => setTimeout(() => fail(new Error(text)), ms))]);
}

/** What a person reads of an exception: what went wrong, and what to do where the hub says it. */
export function explain(e: unknown): string {
  if (e instanceof Problem && e.hint) return `${e.message}; ${e.hint}`;
  return e instanceof Error ? e.message : String(e);
}
