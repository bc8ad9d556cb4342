// Resources of MCP servers in a message: `@SERVER:ADDRESS`, as in `@docs:file:///guide.md`. The text of each follows the
// message. A word that names none stays a word.
import { call } from "./client";
import { toast } from "./ui";

const MOST = 10; // in one message

let known: Promise<{ name: string; resources: string[]; templates: string[] }[]> | null = null;

function servers(fresh: boolean): NonNullable<typeof known> {
  if (fresh || !known) {
    known = call("mcp.list", {}).then((all) => all.servers);
    known.catch(() => { known = null; });
  }
  return known;
}

export interface Address {
  name: string;
  /** It is one as it stands; else more is typed behind it. */
  whole: boolean;
}

/** `SERVER:ADDRESS` that begin with `word`: those that servers list, and how templates continue. */
export async function addresses(word: string): Promise<Address[]> {
  const found = (await servers(word === "")).map(async ({ name, resources, templates }): Promise<Address[]> => {
    const typed = word.startsWith(`${name}:`) ? word.slice(name.length + 1) : null;
    const values = templates.length > 0 && typed !== null ? (await call("mcp.complete", { name, uri: typed }).catch(() => ({ values: [] }))).values : [];
    const open = [...templates.map((t) => t.replace(/\{.*/s, "")), ...values].filter((u) => u !== "");
    return [...resources.map((u) => ({ name: `${name}:${u}`, whole: true })), ...open.map((u) => ({ name: `${name}:${u}`, whole: false }))];
  });
  const seen = new Set<string>();
  return (await Promise.all(found)).flat().filter((a) => a.name.startsWith(word) && a.name !== word && !seen.has(a.name) && seen.add(a.name));
}

/** The message with the text of each resource that it names. */
export async function withResources(text: string): Promise<string> {
  const words = text.split(/\s+/).flatMap((word) => {
    const parts = /^@([^:]+):(.*:\/\/.*)$/.exec(word);
    return parts ? [{ word, name: parts[1]!, uri: parts[2]! }] : [];
  });
  const read = words.slice(0, MOST).map(async ({ word, name, uri }) => {
    try {
      return `\n\n<resource uri="${uri}">\n${(await call("mcp.read", { name, uri })).text}\n</resource>`;
    } catch {
      toast(`${word} could not be read; it stays a word`, "warning");
      return "";
    }
  });
  return text + (await Promise.all(read)).join("");
}
