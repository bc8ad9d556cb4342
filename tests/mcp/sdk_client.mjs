// The official SDK as a client: over HTTP (through proxy.mjs) or stdio. Prints one JSON object for the test to judge.
//   node sdk_client.mjs http URL | stdio COMMAND ARGS...
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.MCP_TOOLS + "/");
const load = (path) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await load("client/index.js");
const types = await load("types.js");

const [kind, ...rest] = process.argv.slice(2);
let transport;
if (kind === "http") {
  const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
  transport = new StreamableHTTPClientTransport(new URL(rest[0]));
} else {
  const { StdioClientTransport } = await load("client/stdio.js");
  transport = new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env });
}

const client = new Client({ name: "sdk", version: "1" }, { capabilities: { sampling: {}, elicitation: {} } });
const out = { changes: 0, logs: [], progress: [] };
client.setRequestHandler(types.ElicitRequestSchema, async () => ({
  action: "accept", content: { username: "u", email: "e@x" } }));
client.setRequestHandler(types.CreateMessageRequestSchema, async () => ({
  role: "assistant", model: "m", content: { type: "text", text: "from the client's model" } }));
client.setNotificationHandler(types.LoggingMessageNotificationSchema, (n) => { out.logs.push(n.params.data); });
let changed;
client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => { out.changes++; changed?.(); });

await client.connect(transport);
const call = async (name, args = {}, options) => (await client.callTool({ name, arguments: args }, undefined, options));
out.server = client.getServerVersion().name;
out.tools = (await client.listTools()).tools.length;
out.text = (await call("test_simple_text")).content[0].text;
out.image = (await call("test_image_content")).content[0].type;
out.error = (await call("test_error_handling")).isError;
out.elicited = (await call("test_elicitation", { message: "?" })).content[0].text;
out.sampled = (await call("test_sampling", { prompt: "?" })).content[0].text;
await call("test_tool_with_progress", {}, { onprogress: (p) => out.progress.push(p.progress) });
await call("test_tool_with_logging");
out.prompt = (await client.getPrompt({ name: "test_simple_prompt" })).messages[0].content.text;
out.resource = (await client.readResource({ uri: "test://template/7/data" })).contents[0].text;
out.templates = (await client.listResourceTemplates()).resourceTemplates.length;
const told = new Promise((resolve) => { changed = resolve; });
await call("test_trigger_tool_change");
await told;
out.now = (await client.listTools()).tools.length;
await client.close();
console.log(JSON.stringify(out));
process.exit(0);
