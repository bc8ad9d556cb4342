// The official SDK's server with the same tool, for bench/mcp.py: one session, JSON answers. Prints its port.
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.MCP_TOOLS + "/");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { z } = await load("zod");

const server = new McpServer({ name: "peer", version: "1" });
server.registerTool("add", { description: "adds", inputSchema: { a: z.number().int(), b: z.number().int() } },
  async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }] }));
const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => "bench", enableJsonResponse: true });
await server.connect(transport);
const web = http.createServer((req, res) => transport.handleRequest(req, res));
web.listen(0, "127.0.0.1", () => console.log(web.address().port));
