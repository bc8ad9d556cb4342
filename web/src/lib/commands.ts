// Commands that plugins contribute, and prompts of MCP servers: what `/` offers besides the page's own commands.
import { call } from "./client";

export interface Command {
  name: string;
  help: string;
  /** Its output is a message for the model. */
  prompt: boolean;
}

let known: Promise<Command[]> | null = null;

/** All of them; `fresh`: ask the hub again. */
export function commands(fresh = false): Promise<Command[]> {
  if (fresh || !known) {
    known = call("command.list", {}).then((all) => all.commands.map((c) => ({ name: c.name, help: c.description ?? "", prompt: c.prompt ?? false })));
    known.catch(() => { known = null; });
  }
  return known;
}

const last = (name: string): string => name.slice(name.indexOf(":") + 1);

/** Does what was typed begin its full name, or the name without that of its plugin? */
export const begins = (c: Command, typed: string): boolean => c.name.startsWith(typed) || last(c.name).startsWith(typed);

/** The command that a name stands for: the full one, or the last part when only one has it. */
async function find(name: string, fresh: boolean): Promise<Command | undefined> {
  const all = await commands(fresh);
  const short = all.filter((c) => last(c.name) === name);
  return all.find((c) => c.name === name) ?? (short.length === 1 ? short[0] : undefined);
}

/** Run it with the words of `rest` for a user who works in `dir`. Null: there is no such command. */
export async function runCommand(name: string, rest: string, dir: string | null): Promise<{ output: string; prompt: boolean } | null> {
  const command = await find(name, true);
  if (!command) return null;
  const { output } = await call("command.run", { name: command.name, args: rest.split(/\s+/).filter((w) => w !== ""), working_dir: dir ?? undefined });
  return { output: typeof output === "string" ? output : JSON.stringify(output), prompt: command.prompt };
}

/** The words that may follow `words` of a command, beginning with `word`: prompts of MCP servers know some. */
export async function wordsOf(name: string, words: string[], word: string): Promise<string[]> {
  const command = await find(name, false);
  const of = command?.prompt ? /^mcp:([^:]+):(.+)$/.exec(command.name) : null;
  return of ? (await call("mcp.complete", { name: of[1]!, prompt: of[2]!, words, word })).values : [];
}
