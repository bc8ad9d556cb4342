// An editor made with the official ACP library: node acp_client.mjs CWD PROGRAM ARGS...
// It allows every call once, has one file open that is not saved, runs commands in a terminal that prints "from the
// terminal", brings one MCP server, and prints what it saw as JSON. The library checks each message against the schema.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [cwd, program, ...args] = process.argv.slice(2);
const agent = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { updates: [], asked: [], written: {}, methods: [] };
const everything = new URL("node_modules/@modelcontextprotocol/server-everything/dist/index.js", import.meta.url).pathname;
const mcpServers = [{ name: "everything", command: process.execPath, args: [everything], env: [] }];
const app = acp
  .client()
  .onRequest("session/request_permission", ({ params }) => {
    seen.asked.push(params.options.map((o) => o.kind));
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onRequest("fs/read_text_file", () => ({ content: "from the editor" }))
  .onRequest("fs/write_text_file", ({ params }) => { seen.written[params.path] = params.content; return {}; })
  .onRequest("terminal/create", ({ params }) => { seen.methods.push(params.args.at(-1)); return { terminalId: "t" }; })
  .onRequest("terminal/wait_for_exit", () => ({ exitCode: 0, signal: null }))
  .onRequest("terminal/output", () => ({ output: "from the terminal", truncated: false, exitStatus: { exitCode: 0 } }))
  .onRequest("terminal/release", () => { seen.methods.push("release"); return {}; })
  .onNotification("session/update", ({ params }) => { seen.updates.push(params.update.sessionUpdate); });

await app.connectWith(stream, async (cx) => {
  seen.hello = await cx.request("initialize", {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  const made = await cx.request("session/new", { cwd, mcpServers });
  const sessionId = made.sessionId;
  seen.modes = made.modes.availableModes.map((m) => m.id);
  seen.stop = (await cx.request("session/prompt", {
    sessionId,
    prompt: [{ type: "text", text: "go " }, { type: "resource_link", name: "a", uri: `file://${cwd}/a.txt` }],
  })).stopReason;
  seen.list = (await cx.request("session/list", { cwd })).sessions.length;
  await cx.request("session/set_mode", { sessionId, modeId: "ask" });
  const before = seen.updates.length;
  await cx.request("session/load", { sessionId, cwd, mcpServers });
  seen.past = seen.updates.slice(before);
  seen.again = (await cx.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "again" }] })).stopReason;
  await cx.request("session/close", { sessionId });
});
agent.stdin.end();
console.log(JSON.stringify(seen));
