// An agent made with the official ACP library: node acp_agent.mjs [MODE]. What it is told decides what it does:
//   "run CMD"   asks, then runs CMD         "edit FILE TEXT"  asks with a diff, then writes
//   "rash CMD"  runs CMD without asking, and waits until it is cancelled      "hang"  only waits
//   "plan"      shows a plan                "die"             ends in the middle
//   "tool NAME JSON"  calls a tool of the MCP server that it was given
// Anything else is answered with "you said ...". It keeps its sessions in a file beside it, and can load them.
import { execSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const mode = process.argv[2] ?? "";
const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const store = `${process.env.ACP_AGENT_DIR ?? "."}/.acp-agent.json`;
const load = () => (existsSync(store) ? JSON.parse(readFileSync(store, "utf8")) : {});
let cancelled = () => {};
let calls = 0;
let servers = [];

async function useTool(name, input) {
  const pairs = (list) => Object.fromEntries(list.map((p) => [p.name, p.value]));
  const { url, headers, command, args, env } = servers[0];
  const client = new Client({ name: "peer", version: "1" });
  await client.connect(mode === "stdio" ? new StdioClientTransport({ command, args, env: { ...process.env, ...pairs(env) } })
    : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: pairs(headers) } }));
  const listed = (await client.listTools()).tools.map((t) => t.name);
  const got = await client.callTool({ name, arguments: input });
  await client.close();
  return `${listed.includes(name)} ${got.isError} ${got.content[0].text}`;
}

async function act(text, sessionId, client) {
  const update = (u) => client.notify("session/update", { sessionId, update: u });
  const say = (t) => update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: t } });
  const [verb, ...rest] = text.trim().split(" ");
  const id = `t${++calls}`;
  const ask = async (toolCall) => {
    await update({ sessionUpdate: "tool_call", status: "pending", ...toolCall });
    const answer = await client.request("session/request_permission", { sessionId, toolCall, options: [
      { optionId: "always", name: "Always", kind: "allow_always" }, { optionId: "yes", name: "Yes", kind: "allow_once" },
      { optionId: "no", name: "No", kind: "reject_once" }] });
    return answer.outcome.outcome === "selected" && answer.outcome.optionId === "yes";
  };
  const done = (status, output) => update({ sessionUpdate: "tool_call_update", toolCallId: id, status,
    content: [{ type: "content", content: { type: "text", text: output } }] });
  if (verb === "run" || verb === "rash") {
    const cmd = rest.join(" ");
    const call = { toolCallId: id, title: `Run ${cmd}`, kind: "execute", rawInput: { command: ["bash", "-lc", cmd] } };
    await say("let me see");
    if (verb === "rash") await update({ sessionUpdate: "tool_call", status: "in_progress", ...call });
    else if (!(await ask(call))) {
      await done("failed", "rejected");
      await say("then not");
      return "end_turn";
    }
    await done("completed", execSync(cmd, { encoding: "utf8" }));
    await say("it ran");
    if (verb === "rash") {
      await new Promise((go) => { cancelled = go; });
      return "cancelled";
    }
  } else if (verb === "edit") {
    const path = `${process.cwd()}/${rest[0]}`;
    const oldText = existsSync(path) ? readFileSync(path, "utf8") : null;
    const content = [{ type: "diff", path, oldText, newText: `${rest[1]}\n` }];
    if (!(await ask({ toolCallId: id, title: "Edit", kind: "edit", locations: [{ path }], content }))) return "end_turn";
    writeFileSync(path, `${rest[1]}\n`);
    await update({ sessionUpdate: "tool_call_update", toolCallId: id, status: "completed", content });
    await say("edited");
  } else if (verb === "tool") {
    await say(await useTool(rest[0], JSON.parse(rest.slice(1).join(" "))));
  } else if (verb === "plan") {
    await update({ sessionUpdate: "plan", entries: [{ content: "first", priority: "high", status: "completed" },
      { content: "then", priority: "low", status: "in_progress" }] });
    await update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "hm" } });
    await say("planned");
  } else if (verb === "hang") {
    await say("waiting");
    await new Promise((go) => { cancelled = go; });
    return "cancelled";
  } else if (verb === "die") {
    await say("I go");
    process.exit(3);
  } else await say(`you said ${text.split("\n").at(-1)}`);
  return "end_turn";
}

acp.agent({ name: "peer" })
  .onRequest("initialize", () => ({ protocolVersion: mode === "v9" ? 9 : 1, agentCapabilities: { loadSession: mode !== "forgetful", promptCapabilities: { image: mode === "sees" },
    mcpCapabilities: { http: mode !== "stdio" } }, agentInfo: { name: "peer", version: "1" }, authMethods: [] }))
  .onRequest("session/new", ({ params }) => {
    if (mode === "locked") throw new acp.RequestError(-32000, "log in first");
    const sessions = load(), sessionId = `s${Object.keys(sessions).length + 1}`;
    writeFileSync(store, JSON.stringify({ ...sessions, [sessionId]: [] }));
    process.chdir(params.cwd);
    servers = params.mcpServers;
    return { sessionId };
  })
  .onRequest("session/load", async ({ params, client }) => {
    if (!(params.sessionId in load())) throw new acp.RequestError(-32602, "no such session");
    process.chdir(params.cwd);
    for (const text of load()[params.sessionId])
      await client.notify("session/update", { sessionId: params.sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: `old: ${text}` } } });
    return {};
  })
  .onRequest("session/prompt", async ({ params, client }) => {
    const text = params.prompt.map((b) => b.text ?? `[${b.type} ${b.mimeType} ${b.data?.length}]`).join("");
    const sessions = load();
    writeFileSync(store, JSON.stringify({ ...sessions, [params.sessionId]: [...sessions[params.sessionId], text] }));
    return { stopReason: await act(params.prompt.at(-1).text, params.sessionId, client) };
  })
  .onNotification("session/cancel", () => { cancelled(); })
  .connect(stream);
