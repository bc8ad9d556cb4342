// Made by web/gen-client.mjs from /openapi.json; do not edit.

/** What each operation takes. */
export interface Params {
  "health": {  };
  "doctor": {  };
  "config.show": {  };
  "logs": { limit?: number };
  "feature.list": {  };
  "feature.enable": { name: string };
  "feature.disable": { name: string };
  "reload": { names?: readonly unknown[]; dry_run?: boolean; force?: boolean; all_hubs?: boolean };
  "reload.last": {  };
  "generation.list": {  };
  "generation.undo": { to?: number };
  "plugin.list": {  };
  "plugin.show": { name: string };
  "plugin.logs": { name: string };
  "plugin.enable": { name: string };
  "plugin.disable": { name: string };
  "plugin.reload": { name: string };
  "plugin.save": { name: string; content: string; lang?: string };
  "plugin.remove": { name: string };
  "tool.list": {  };
  "tool.enable": { name: string };
  "tool.disable": { name: string };
  "command.list": {  };
  "command.run": { name: string; args?: readonly unknown[]; working_dir?: string };
  "mcp.list": {  };
  "mcp.read": { name: string; uri: string };
  "mcp.complete": { name: string; prompt?: string; words?: readonly unknown[]; word?: string; uri?: string };
  "env.show": { path?: string };
  "files.list": { dir: string };
  "files.find": { dir: string };
  "files.watch": { dirs: readonly unknown[] };
  "files.read": { path: string };
  "files.write": { path: string; text: string; stamp?: string };
  "files.mkdir": { path: string };
  "files.move": { path: string; to: string };
  "files.remove": { path: string; dry_run?: boolean };
  "session.list": { state?: string; parent?: string; limit?: number; cursor?: string };
  "session.new": { plugins?: readonly unknown[]; disabled_tools?: readonly unknown[]; bot?: string; working_dir?: string; env?: Record<string, unknown>; provider?: string; model?: string; engine?: string; sandbox?: string; network?: boolean; writable?: readonly unknown[]; permission?: string; keep_requests?: boolean; max_steps?: number; max_cost?: number; title?: string; type?: string; worktree?: boolean };
  "session.show": { id: string };
  "session.patch": { id: string; plugins?: readonly unknown[]; disabled_tools?: readonly unknown[]; working_dir?: string; env?: Record<string, unknown>; provider?: string; model?: string; sandbox?: string; network?: boolean; writable?: readonly unknown[]; permission?: string; keep_requests?: boolean; max_steps?: number; max_cost?: number; title?: string };
  "session.end": { id: string; purge?: boolean };
  "session.fork": { id: string; seq?: number };
  "session.message": { id: string; text: string; images?: readonly unknown[]; wait?: boolean; if_busy?: string; env?: Record<string, unknown> };
  "session.interrupt": { id: string };
  "session.steer": { id: string; text: string };
  "session.compact": { id: string };
  "session.checkpoints": { id: string };
  "session.rewind": { id: string; to?: string; files?: boolean; conversation?: boolean; dry_run?: boolean; force?: boolean };
  "session.permission": { id: string; request_id: string; decision: string; remember?: string; reason?: string };
  "session.answer": { id: string; question_id: string; answer: unknown };
  "session.events": { id: string; after?: number; limit?: number };
  "session.pipeline": { id: string };
  "permission.list": { path?: string };
  "permission.remove": { id: string };
  "provider.list": { keys?: string; path?: string; limit?: number; cursor?: string };
  "provider.models": { name: string; session?: string; limit?: number; cursor?: string };
  "bot.list": { working_dir?: string; limit?: number; cursor?: string };
  "bot.create": { name: string; description?: string; instructions?: string; max_iterations?: number; sleep_secs?: number; model?: string; provider?: string; engine?: string; sandbox?: string; network?: boolean; skip_git_check?: boolean; worktree?: boolean; merge?: string; plugins?: readonly unknown[]; stop_phrase?: string };
  "bot.show": { bot: string; working_dir?: string; project?: string };
  "bot.patch": { bot: string; description?: string; instructions?: string; max_iterations?: number; sleep_secs?: number; model?: string; provider?: string; engine?: string; sandbox?: string; network?: boolean; skip_git_check?: boolean; worktree?: boolean; merge?: string; plugins?: readonly unknown[]; stop_phrase?: string };
  "bot.delete": { bot: string; history?: boolean };
  "memory.list": { bot: string; working_dir?: string; project?: string };
  "memory.set": { bot: string; key: string; value: string; working_dir?: string; project?: string };
  "memory.remove": { bot: string; key: string; working_dir?: string; project?: string };
  "history.list": { bot: string; working_dir?: string; project?: string; limit?: number; cursor?: string };
  "run.start": { bot: string; prompt?: string; working_dir: string; iterations?: number; sleep_secs?: number; resume?: unknown; project?: string; instructions?: string; wake_on?: readonly unknown[]; on?: string; merge?: boolean; worktree?: boolean; skip_git_check?: boolean; env?: Record<string, unknown>; provider?: string; model?: string; engine?: string; sandbox?: string; network?: boolean };
  "run.list": { bot?: string; state?: string; working_dir?: string; project?: string; limit?: number; cursor?: string };
  "run.show": { id: string };
  "run.diff": { id: string };
  "run.stop": { id: string; force?: boolean };
  "run.input": { id: string; text: string };
  "run.apply": { id: string; working_dir?: string; umask?: string };
  "run.merge": { id: string; working_dir?: string; into?: string; umask?: string };
  "run.discard": { id: string; delete_branch?: boolean };
  "skill.show": { name: string; bot?: string; working_dir?: string };
  "skill.save": { name: string; description?: string; body: string; bot?: string };
  "skill.list": { bot?: string; working_dir?: string; limit?: number; cursor?: string };
  "trust.list": { limit?: number; cursor?: string };
}

/** Where it is: method, path, names that go into the query; the rest is the body. */
export const routes: { [K in keyof Params]: readonly [string, string, readonly string[]] } = {
  "health": ["GET", "/healthz", []],
  "doctor": ["GET", "/doctor", []],
  "config.show": ["GET", "/config", []],
  "logs": ["GET", "/logs", ["limit"]],
  "feature.list": ["GET", "/feature", []],
  "feature.enable": ["POST", "/feature/{name}/enable", []],
  "feature.disable": ["POST", "/feature/{name}/disable", []],
  "reload": ["POST", "/reload", []],
  "reload.last": ["GET", "/reload", []],
  "generation.list": ["GET", "/generations", []],
  "generation.undo": ["POST", "/generations/undo", []],
  "plugin.list": ["GET", "/plugin/list", []],
  "plugin.show": ["GET", "/plugin/{name}", []],
  "plugin.logs": ["GET", "/plugin/{name}/logs", []],
  "plugin.enable": ["POST", "/plugin/{name}/enable", []],
  "plugin.disable": ["POST", "/plugin/{name}/disable", []],
  "plugin.reload": ["POST", "/plugin/{name}/reload", []],
  "plugin.save": ["POST", "/plugin/save", []],
  "plugin.remove": ["DELETE", "/plugin/{name}", []],
  "tool.list": ["GET", "/tool", []],
  "tool.enable": ["POST", "/tool/{name}/enable", []],
  "tool.disable": ["POST", "/tool/{name}/disable", []],
  "command.list": ["GET", "/command", []],
  "command.run": ["POST", "/command/{name}", []],
  "mcp.list": ["GET", "/mcp/servers", []],
  "mcp.read": ["GET", "/mcp/servers/{name}/resource", ["uri"]],
  "mcp.complete": ["POST", "/mcp/servers/{name}/complete", []],
  "env.show": ["GET", "/env", ["path"]],
  "files.list": ["GET", "/files", ["dir"]],
  "files.find": ["GET", "/files/find", ["dir"]],
  "files.watch": ["POST", "/files/watch", []],
  "files.read": ["GET", "/files/text", ["path"]],
  "files.write": ["PUT", "/files/text", []],
  "files.mkdir": ["POST", "/files/dir", []],
  "files.move": ["POST", "/files/move", []],
  "files.remove": ["DELETE", "/files", ["path","dry_run"]],
  "session.list": ["GET", "/session", ["state","parent","limit","cursor"]],
  "session.new": ["POST", "/session", []],
  "session.show": ["GET", "/session/{id}", []],
  "session.patch": ["PATCH", "/session/{id}", []],
  "session.end": ["DELETE", "/session/{id}", ["purge"]],
  "session.fork": ["POST", "/session/{id}/fork", []],
  "session.message": ["POST", "/session/{id}/message", []],
  "session.interrupt": ["POST", "/session/{id}/interrupt", []],
  "session.steer": ["POST", "/session/{id}/steer", []],
  "session.compact": ["POST", "/session/{id}/compact", []],
  "session.checkpoints": ["GET", "/session/{id}/checkpoints", []],
  "session.rewind": ["POST", "/session/{id}/rewind", []],
  "session.permission": ["POST", "/session/{id}/permission/{request_id}", []],
  "session.answer": ["POST", "/session/{id}/answer/{question_id}", []],
  "session.events": ["GET", "/session/{id}/events", ["after","limit"]],
  "session.pipeline": ["GET", "/session/{id}/pipeline", []],
  "permission.list": ["GET", "/permission", ["path"]],
  "permission.remove": ["DELETE", "/permission/{id}", []],
  "provider.list": ["GET", "/provider", ["keys","path","limit","cursor"]],
  "provider.models": ["GET", "/provider/{name}/models", ["session","limit","cursor"]],
  "bot.list": ["GET", "/bots", ["working_dir","limit","cursor"]],
  "bot.create": ["POST", "/bots", []],
  "bot.show": ["GET", "/bots/{bot}", ["working_dir","project"]],
  "bot.patch": ["PATCH", "/bots/{bot}", []],
  "bot.delete": ["DELETE", "/bots/{bot}", ["history"]],
  "memory.list": ["GET", "/bots/{bot}/memory", ["working_dir","project"]],
  "memory.set": ["PUT", "/bots/{bot}/memory/{key}", []],
  "memory.remove": ["DELETE", "/bots/{bot}/memory/{key}", ["working_dir","project"]],
  "history.list": ["GET", "/bots/{bot}/history", ["working_dir","project","limit","cursor"]],
  "run.start": ["POST", "/bots/{bot}/runs", []],
  "run.list": ["GET", "/runs", ["bot","state","working_dir","project","limit","cursor"]],
  "run.show": ["GET", "/runs/{id}", []],
  "run.diff": ["GET", "/runs/{id}/diff", []],
  "run.stop": ["POST", "/runs/{id}/stop", []],
  "run.input": ["POST", "/runs/{id}/input", []],
  "run.apply": ["POST", "/runs/{id}/apply", []],
  "run.merge": ["POST", "/runs/{id}/merge", []],
  "run.discard": ["POST", "/runs/{id}/discard", []],
  "skill.show": ["GET", "/skills/{name}", ["bot","working_dir"]],
  "skill.save": ["PUT", "/skills/{name}", []],
  "skill.list": ["GET", "/skills", ["bot","working_dir","limit","cursor"]],
  "trust.list": ["GET", "/trust", ["limit","cursor"]],
};
