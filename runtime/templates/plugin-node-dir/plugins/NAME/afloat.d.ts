// The module "afloat" as a plugin's server side sees it. Editors read this file; nothing else does.

declare module "afloat" {
  type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
  type Awaitable<T> = T | Promise<T>;

  interface Context {
    session_id: string; turn_id: string; working_dir: string; user_text: string;
    /** This turn's, shared by the session's plugins in whatever language. */
    state: Record<string, any>;
    /** Texts or {role, content} that reach the next model request. */
    memory: (string | { role: string; content: string })[];
    bot?: string; model?: string; depth: number; outcome?: "completed" | "interrupted" | "failed";
    /** Of a tool: say how far it is. */
    progress(text: string): void;
    /** Of a tool, route or command: aborted when nobody waits any more. */
    signal?: AbortSignal;
  }
  interface ToolCall { tool_name: string; tool_call_id: string; input: Record<string, any> }
  interface ToolResult { tool_call_id?: string; tool_name?: string; output: string; success?: boolean; error?: string }
  interface ModelRequest {
    model?: string; system?: string; messages: { role: string; content: any }[]; tools?: any[]; params?: Record<string, any>;
  }
  interface ModelResponse {
    text?: string; tool_calls?: { id?: string; name: string; input: Record<string, any> }[]; usage?: Record<string, number>; stop_reason?: string;
  }
  interface HookOptions { tool?: string; priority?: number; timeout_ms?: number; on_error?: "continue" | "block"; name?: string }
  /** What was registered. off() takes it back: true the first time, false once another version of the plugin serves. */
  interface Handle { off(): boolean }
  type Hook<A extends any[], R> = {
    (fn: (ctx: Context, ...args: A) => Awaitable<R | void | null>): Handle;
    (options: HookOptions, fn: (ctx: Context, ...args: A) => Awaitable<R | void | null>): Handle;
  };

  // hook points, in the order of a turn
  const on_begin: Hook<[], void>;
  const on_user_message: Hook<[text: string], string>;
  const on_before_model: Hook<[request: ModelRequest], ModelRequest | { response: ModelResponse }>;
  const on_model_delta: Hook<[delta: { text?: string; reasoning?: string }], void>;
  const on_after_model: Hook<[response: ModelResponse], ModelResponse>;
  const on_tool_call: Hook<[call: ToolCall], ToolCall>;
  const on_permission: Hook<[call: ToolCall], "allow" | "ask" | "deny" | ["deny", string]>;
  const on_resolve_tool: Hook<[call: ToolCall], ToolResult>;
  const on_tool_result: Hook<[call: ToolCall, result: ToolResult], ToolResult>;
  const on_compact: Hook<[summary: string], string>;
  const on_final: Hook<[text: string], string>;
  const on_done: Hook<[], void>;
  const on_error: Hook<[error: { code: string; message: string; where: string }], void>;
  // hook points: end

  type Type = "string" | "integer" | "number" | "boolean" | "array" | "object";
  type Field = Type | `${Type}?` | { type: Type | `${Type}?`; description?: string; enum?: Json[]; default?: Json };
  function tool(t: {
    name: string; description?: string; input?: Record<string, Field>; input_schema?: object; permission?: "allow" | "ask" | "deny";
    override?: boolean; run(ctx: Context, input: any): Awaitable<string | number | boolean | object | [null, string] | void>;
  }): Handle;

  interface Request {
    method: string; path: string; params: Record<string, string>; query: Record<string, string>; headers: Record<string, string>;
    body: string; readonly json: any;
  }
  function route(method: string, path: string, fn: (req: Request) => Awaitable<any>): Handle;
  function response(answer: { status?: number; headers?: Record<string, string | string[]>; body?: any }): object;
  function command(c: { name: string; description?: string; short?: boolean; run(args: string[], ctx: Context): Awaitable<any> }): Handle;
  function prompt(p: string | { id?: string; text: string | ((ctx: Context) => Awaitable<string>); priority?: number }): Handle;
  /** A piece of a model's answer. */
  type ModelEvent = string | {
    text?: string; reasoning?: string; tool_call?: { id?: string; name: string; input?: Record<string, any> };
    tool_calls?: { id?: string; name: string; input?: Record<string, any> }[];
    usage?: { input?: number; cached?: number; output?: number; reasoning?: number };
    stop_reason?: "end_turn" | "tool_use" | "max_tokens" | "refusal" | "pause_turn";
    error?: { message: string; code?: string; status?: number; retry_after?: number };
  };
  /** A model provider: `stream` emits pieces, or is a generator that yields them. */
  function provider(p: {
    name: string; models?: string[]; description?: string;
    stream(ctx: Context, request: ModelRequest, emit: (event: ModelEvent) => void):
      Awaitable<ModelEvent | void> | AsyncIterable<ModelEvent> | Iterable<ModelEvent>;
  }): Handle;
  /** What only clients over MCP see. */
  const mcp: {
    tool: typeof tool;
    prompt(p: { name: string; title?: string; description?: string; arguments?: (string | { name: string; description?: string; required?: boolean; values?: string[] })[];
      get(args: Record<string, string>, ctx: Context): Awaitable<any> }): Handle;
    resource(r: { uri?: string; uri_template?: string; name?: string; title?: string; description?: string; mime?: string; values?: any;
      read(uri: string, params: Record<string, string>, ctx: Context): Awaitable<any> }): Handle;
    updated(uri: string): Promise<void>;
  };
  function flag<T extends boolean | string | number>(f: { name: string; type?: "boolean" | "string" | "integer" | "number"; default: T; description?: string; short?: boolean }): (() => T) & Handle;
  function preserve_ui(...keys: string[]): Handle;
  function on(name: string, fn: (data: any, name: string) => Awaitable<any>): Handle;

  const state: { get<T>(key: string, fallback?: T): T; set(key: string, value: any): void; clear(key: string): void; keys(): string[] };
  const store: { get<T>(key: string, fallback?: T): Promise<T>; set(key: string, value: any): Promise<void>; remove(key: string): Promise<void>; keys(): Promise<string[]> };
  const events: { on: typeof on; off(handle: Handle): boolean; emit(name: string, data?: any): Promise<void> };
  const timer: { after(s: number, fn: () => any): number; every(s: number, fn: () => any): number; cancel(id: number): boolean; sleep(s: number): Promise<void> };
  interface Change { path: string; kind: "created" | "changed" | "deleted" }
  /** Be told of each file below a directory whose bytes really changed, while the plugin serves. */
  const watch: {
    directory(path: string, fn: (change: Change) => any): number;
    directory(path: string, options: { recursive?: boolean; pattern?: string; poll?: boolean }, fn: (change: Change) => any): number;
    unwatch(id: number): boolean;
  };
  const log: { (text: string): void } & Record<"debug" | "info" | "warn" | "error", (...args: any[]) => void>;
  const config: { get<T>(key: string, fallback?: T): Promise<T>; all(): Promise<any> };
  const secrets: { get(name: string): Promise<string> };
  /** hub.session.list({limit: 3}): the operations that plugins may use. */
  const hub: { call(op: string, params?: object): Promise<any> } & Record<string, Record<string, (params?: object) => Promise<any>>>;
  const options: any;
  class HubError extends Error {}
}
