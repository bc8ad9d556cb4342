// A WebSocket server made with the `ws` library: node ws_server.mjs echo|cable [CERT KEY]
// Prints its port. `echo` says everything again; the text "bye" makes it close with 4001,
// "flood" too, after 20 MiB. `cable` speaks Action Cable.
import { createServer } from "node:http";
import { createServer as createTls } from "node:https";
import { readFileSync } from "node:fs";
import { WebSocketServer } from "ws";

const [mode, cert, key] = process.argv.slice(2);
const server = cert ? createTls({ cert: readFileSync(cert), key: readFileSync(key) }) : createServer();
const wss = new WebSocketServer({ server, verifyClient: ({ req }) => req.url !== "/refused" });

function echo(ws, req) {
  ws.send(JSON.stringify({ url: req.url, key: req.headers["x-key"] ?? null, host: req.headers.host }));
  ws.on("message", (data, binary) => {
    if (String(data) === "bye") ws.close(4001, "as you wish");
    else if (String(data) === "die") ws.terminate();
    else if (String(data) === "flood") {
      for (let i = 0; i < 20; i++) ws.send("x".repeat(1 << 20));
      for (let n = 1 << 20; n >= 1; n >>= 1) { // and what room that leaves
        ws.send("x".repeat(n));
        ws.send("x".repeat(n));
      }
      ws.close(4001, "enough");
    }
    else ws.send(data, { binary });
  });
}

function cable(ws) {
  const say = m => ws.send(JSON.stringify(m));
  say({ type: "welcome" });
  const beat = setInterval(() => say({ type: "ping", message: Date.now() }), 20);
  ws.on("close", () => clearInterval(beat));
  ws.on("message", data => {
    const { command, identifier, data: inner } = JSON.parse(data);
    const { channel } = JSON.parse(identifier);
    if (command === "subscribe" && channel === "Secret") say({ type: "reject_subscription", identifier });
    else if (command === "subscribe") {
      say({ type: "confirm_subscription", identifier });
      say({ identifier, message: { hello: channel, params: JSON.parse(identifier) } });
    } else if (command === "message") {
      const said = JSON.parse(inner);
      if (said.action === "drop") ws.terminate();
      else say({ identifier, message: { did: said.action, with: said } });
    } else if (command === "unsubscribe") say({ identifier: JSON.stringify({ channel: "Other" }), message: { left: channel } });
  });
}

wss.on("connection", mode === "cable" ? cable : echo);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
