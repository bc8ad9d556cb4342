// Adds the hub's token to every request and passes on everything else as it is: the conformance suite and the
// inspector know no way to send one. Prints its own port, then reads "HUB_PORT TOKEN" from stdin.
import http from "node:http";

let hub;
const server = http.createServer((req, res) => {
  const headers = [...req.rawHeaders, "Authorization", `Bearer ${hub.token}`];
  const up = http.request({ host: "127.0.0.1", port: hub.port, method: req.method, path: req.url, headers,
    setHost: false });
  up.on("response", (answer) => {
    res.writeHead(answer.statusCode, answer.rawHeaders);
    res.flushHeaders();
    answer.pipe(res);
  });
  up.on("error", () => res.destroy());
  res.on("close", () => up.destroy());
  req.pipe(up);
});
server.keepAliveTimeout = 0; // a client that is slow to ask again must not find its connection closed
process.stdin.once("data", (line) => {
  const [port, token] = line.toString().trim().split(" ");
  hub = { port, token };
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
