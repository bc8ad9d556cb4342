// The shape of each answer that the page reads. The names decide what gen-client.mjs puts into api.gen.ts.

export type SessionState = "idle" | "running" | "waiting" | "ended" | "crashed";
export interface Usage {
  input: number | null;
  cached: number | null;
  output: number | null;
  reasoning: number | null;
  cost_usd: number | null;
}
export interface Pending {
  request_id?: string;
  question_id?: string;
  [more: string]: unknown;
}
export interface SessionRow {
  id: string;
  state: SessionState;
  title: string | null;
  plugins: "*" | string[];
  working_dir: string | null;
  provider: string;
  model: string;
  engine: string;
  fallback: boolean;
  sandbox: string;
  network: boolean;
  permission: string;
  bot: string | null;
  run_id: string | null;
  branch: string | null;
  worktree: string | null;
  started_at: string;
  ended_at: string | null;
  prompt_summary: string | null;
  response_summary: string | null;
  end_reason: string | null;
  usage: Usage;
  turns: number;
  turn: string | null;
  queued: number;
  last_seq: number;
  instructions: string[];
  pending: Pending[];
  parent?: string | null;
  context?: unknown;
}
export interface JournalEvent {
  seq: number;
  ts: string;
  type: string;
  session: string;
  turn?: string;
  step?: number;
  [more: string]: unknown;
}
export interface Diagnostic {
  code: string;
  severity: "error" | "warning" | "info";
  plugin?: string | null;
  source?: string;
  path?: string | null;
  line?: number | null;
  message: string;
  hint?: string | null;
}
export interface PluginRow {
  name: string;
  path: string | null;
  source: string;
  layer: string;
  project?: string | null;
  host: string;
  hooks: string[];
  tools: string[];
  routes: unknown[];
  commands: unknown[];
  metadata: { description?: string; version?: string; [more: string]: unknown } | null;
  state: string;
  serving: boolean;
  pending?: { hash: string; at: string; error?: string } | null;
  revision: number;
  generation: number;
  error: string | null;
  front_error?: string | null;
}
export interface PluginDetail extends PluginRow {
  content?: string | null;
  stats?: unknown;
  last_error?: unknown;
  diagnostics?: Diagnostic[];
  outputs?: { kind: string; name: string; swaps?: boolean; needs?: string }[];
}
export interface Report {
  ok: boolean;
  generation: number;
  previous: number;
  trigger: string;
  duration_us: number;
  added: string[];
  changed: string[];
  removed: string[];
  kept: number;
  failed: string[];
  diagnostics: Diagnostic[];
  needs: { plugin: string; kind: string; reason: string }[];
}
export interface Run {
  run_id: string;
  bot: string;
  state: string;
  project: string | null;
  branch: string | null;
  worktree: string | null;
  working_dir: string | null;
  started_at: string;
  ended_at: string | null;
  end_reason: string | null;
  action: string | null;
  prompt: string | null;
  summary: string | null;
  error: string | null;
  session_id: string | null;
  commits: number;
  files: number;
  merged_at: string | null;
  applied_at: string | null;
  discarded_at: string | null;
}
export interface Checkpoint {
  turn: string;
  at: string;
  text: string;
  files: unknown;
}
export interface ConfigValue {
  key: string;
  value: unknown;
  origin: string;
  /** The file and line that set it. */
  path?: string;
  line?: number;
}
export interface LogLine {
  ts: string;
  level: string;
  component: string;
  text: string;
}
interface Ok {
  ok?: boolean;
}

export interface Answers {
  "health": { ok: boolean; version: string; generation: number; uptime_s: number };
  "doctor": { checks: { name: string; status: string; detail: string }[] };
  "config.show": { values: ConfigValue[]; diagnostics?: Diagnostic[] };
  "logs": { lines: LogLine[] };
  "feature.list": { features: { name: string; enabled: boolean; stage: string; description: string }[] };
  "feature.enable": Ok;
  "feature.disable": Ok;
  "reload": Report;
  "reload.last": Report;
  "generation.list": { current: number; generations: { generation: number; at: string; trigger: string; added: string[]; changed: string[]; removed: string[] }[] };
  "generation.undo": Report;
  "plugin.list": { plugins: PluginRow[]; feature_enabled: boolean };
  "plugin.show": PluginDetail;
  "plugin.logs": { lines: LogLine[] };
  "plugin.enable": PluginRow;
  "plugin.disable": PluginRow;
  "plugin.reload": { name: string; report: Report };
  "plugin.save": { name: string; path: string };
  "plugin.remove": { deleted: string };
  "tool.list": { tools: { name: string; plugin: string | null; builtin: boolean; description: string; enabled: boolean; input_schema: unknown }[] };
  "tool.enable": Ok;
  "tool.disable": Ok;
  "command.list": { commands: { name: string; description?: string; prompt?: boolean }[] };
  "command.run": { output: unknown };
  "mcp.list": { servers: { name: string; state: string; resources: string[]; templates: string[] }[] };
  "mcp.read": { uri: string; text: string };
  "mcp.complete": { values: string[] };
  "env.show": { shells?: unknown[]; [more: string]: unknown };
  "files.list": { dir: string; entries: { name: string; kind: "file" | "dir"; link?: boolean }[]; more: boolean };
  "files.find": { dir: string; names: string[]; more: boolean };
  "files.watch": { watching: string[]; lease_s: number };
  "files.read": { path: string; text: string; stamp: string };
  "files.write": { path: string; stamp: string };
  "files.mkdir": { path: string };
  "files.move": { path: string; to: string };
  "files.remove": { path: string; files: number; dirs: number; more: boolean; trashed: boolean };
  "session.list": { sessions: SessionRow[]; next: string | null };
  "session.new": SessionRow;
  "session.show": SessionRow;
  "session.patch": SessionRow;
  "session.end": Ok;
  "session.fork": SessionRow;
  "session.message": { turn_id: string; queued?: boolean; position?: number };
  "session.interrupt": Ok;
  "session.steer": Ok;
  "session.compact": Ok;
  "session.checkpoints": { checkpoints: Checkpoint[] };
  "session.rewind": { restored: string[]; deleted: string[]; conflicts: string[]; dry_run: boolean };
  "session.permission": Ok;
  "session.answer": Ok;
  "session.events": { events: JournalEvent[]; next: number };
  "session.pipeline": unknown;
  "permission.list": { rules: { id: string; tool: string; match: string | null; decision: string; scope: string; at: string | null }[] };
  "permission.remove": Ok;
  "provider.list": { providers: { name: string; kind: string; model: string | null; has_key: boolean; needs_key: boolean; default: boolean }[] };
  "provider.models": { models: (string | { id: string; [more: string]: unknown })[] };
  "bot.list": { bots: BotRow[] };
  "bot.create": BotRow;
  "bot.show": BotRow & { instructions?: string; skills?: unknown[]; diagnostics?: Diagnostic[] };
  "bot.patch": BotRow;
  "bot.delete": Ok;
  "memory.list": { project: string; entries: Record<string, unknown> };
  "memory.set": Ok;
  "memory.remove": Ok;
  "history.list": { project: string; sessions: { session_id: string; session_number: number; started_at: string; end_reason: string | null; response_summary: string | null }[] };
  "run.start": { run_id: string; session_id: string | null; branch: string | null; worktree: string | null };
  "run.list": { runs: Run[]; next: string | null };
  "run.show": Run;
  "run.diff": { patch: string; files: { path: string; kind: string; added: number; removed: number; binary: boolean }[]; added: number; removed: number; commits: number; cut: boolean };
  "run.stop": Ok;
  "run.input": Ok;
  "run.apply": Ok & { [more: string]: unknown };
  "run.merge": Ok & { [more: string]: unknown };
  "run.discard": Ok;
  "skill.show": { name: string; description?: string; source?: string; body: string };
  "skill.save": { name: string };
  "skill.list": { skills: { name: string; description?: string; [more: string]: unknown }[] };
  "trust.list": { places: { path: string; [more: string]: unknown }[] };
}
export interface BotRow {
  name: string;
  description?: string | null;
  [more: string]: unknown;
}
