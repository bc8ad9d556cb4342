// The far end of the host protocol for plugins in JavaScript and TypeScript: one process runs one version of one plugin.
//
//   fd 3: JSON lines from and to the hub       load ── register... ── loaded ── hook, tool, route, ... ── result
//
// The plugin's modules are made from the texts that came with `load` (vm.SourceTextModule): what runs is what was hashed.
// Everything else is imported from the disk as always. The API is there as globals and as the module "afloat".
//
// A default export that is a function is an extension written for Pi: it is called with an object that offers the part of
// Pi's interface that maps onto ours; the rest says by name that it is not there. A default export that is an object is
// registered part by part, as a table that a Lua plugin returns.
//
// With --validate the request is on stdin, nothing has an effect, and the answer is one JSON object on stdout.

import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import nodeModule from "node:module";
import net from "node:net";
import { pathToFileURL } from "node:url";
import util from "node:util";
import vm from "node:vm";

const FD = 3;
const READ = 65536;
const LINE_MAX = 16 << 20;
const TABLE = JSON.parse(process.argv[2]); // {name: {kind, args}} of the hook points, in the order of a turn: src/hook/points.def
const POINTS = Object.keys(TABLE);
const LIFE = ["plugin_start", "plugin_shutdown"];
const VALIDATE = process.argv.includes("--validate");

const me = { name: "", path: "", server: "", single: true, files: {}, options: {}, loaded: false, serving: false, leaving: false,
  hooks: [], tools: new Map(), routes: new Map(), commands: new Map(), prompts: new Map(), flags: new Map(), events: [], keys: [],
  providers: new Map(), mcpPrompts: new Map(), mcpResources: new Map(), watches: new Map(),
  past: new Map(), // what was taken back, by kind and name: a turn may still call it
  metadata: {}, tests: [] };

// ---- the wire -------------------------------------------------------------------------------------

let socket = null;
const send = message => { if (socket) socket.write(JSON.stringify(message) + "\n"); };
const log = (level, text) => send({ type: "log", level, text: String(text) });

/** Message, path and line of an error, as the plugin's author sees it. */
function faultOf(e) {
  const stack = String(e?.stack ?? "");
  const dir = me.single ? me.path : me.path + "/";
  let path = me.path, line = 0;
  for (const [, file, n] of stack.matchAll(/(?:file:\/\/)?([^\s():]+):(\d+)/g)) {
    if (file === me.path || file.startsWith(dir)) {
      path = file;
      line = lineIn(file, Number(n));
      break;
    }
  }
  const name = e?.name && e.name !== "Error" ? `${e.name}: ` : "";
  return { message: e instanceof Error || e?.message ? name + e.message : `thrown: ${util.inspect(e)}`, path, line };
}

function report(e, id = 0, what) {
  const m = { type: "error", ...faultOf(e), hook: what };
  if (id) m.id = id;
  if (e?.code === "AFLOAT_TIMEOUT") m.code = "HOOK_TIMEOUT";
  log("error", e?.stack ? String(e.stack).split("\n").filter(l => !l.includes("[eval1]") && !l.includes("node:internal")).join("\n") : m.message);
  send(m);
}

// ---- asking the hub -------------------------------------------------------------------------------

const asked = new Map();
let nextId = 0;

class HubError extends Error {
  constructor(message) { super(message); this.name = "HubError"; }
}

function call(op, params = {}) {
  if (VALIDATE) return Promise.reject(new HubError("not while validating"));
  if (!me.loaded) return Promise.reject(new HubError(`${op}: not while the plugin is loading`));
  return new Promise((resolve, reject) => {
    asked.set(++nextId, { resolve, reject, op });
    send({ type: "call", id: nextId, op, params });
  });
}

function takeAnswer(m) {
  const slot = asked.get(m.id);
  asked.delete(m.id);
  if (!slot) {
    if (m.type === "error") log("error", m.message);
  } else if (m.type === "error") {
    slot.reject(new HubError(`${slot.op}: ${m.message ?? "failed"}`));
  } else {
    slot.resolve(m.value);
  }
}

// ---- running handlers -----------------------------------------------------------------------------

const jobs = new Map();       // id: job, of what has not been answered
const local = new Map();      // turn: values of ctx.state that JSON does not know

/** Text of a list that is most often empty. */
const listText = list => Array.isArray(list) && !list.length ? "[]" : JSON.stringify(list);

function makeCtx(ctx, job) { // `ctx` is of this message alone
  ctx.session_id ??= "";
  ctx.turn_id ??= "";
  ctx.working_dir ??= "";
  ctx.user_text ??= "";
  ctx.depth ??= 0;
  ctx.state ??= {};
  ctx.memory ??= [];
  ctx.progress = text => send({ type: "progress", id: job.id, text: String(text) });
  job.before = JSON.stringify(ctx.state);
  job.memory = listText(ctx.memory);
  job.ctx = ctx;
  Object.assign(ctx.state, local.get(ctx.turn_id));
  return ctx;
}

const isPlain = v => v === null || ["string", "number", "boolean"].includes(typeof v) || Array.isArray(v) && v.every(isPlain) ||
  typeof v === "object" && (Object.getPrototypeOf(v) === Object.prototype || Object.getPrototypeOf(v) === null ||
    Object.getPrototypeOf(v)?.constructor?.name === "Object") && Object.values(v).every(x => x === undefined || isPlain(x));

/** ctx.state without what JSON does not know, which stays in this process for the rest of the turn. */
function splitState(ctx) {
  const own = {}, shared = {}, entries = Object.entries(ctx.state);
  if (!entries.length && !local.size) return "{}";
  for (const [key, value] of entries) (value === undefined || isPlain(value) ? shared : own)[key] = value;
  if (Object.keys(own).length) local.set(ctx.turn_id, own); else local.delete(ctx.turn_id);
  while (local.size > 64) local.delete(local.keys().next().value);
  return JSON.stringify(shared);
}

function answer(job, value) {
  if (!jobs.delete(job.id) && job.id) return;
  try {
    const text = value === undefined ? "null" : JSON.stringify(value);
    let line = `{"type":"result","id":${job.id},"value":${text ?? "null"}`;
    if (job.ctx) {
      const state = splitState(job.ctx), memory = listText(job.ctx.memory);
      if (state !== job.before) line += `,"state":${state}`;
      if (memory !== job.memory) line += `,"memory":${memory}`;
    }
    if (job.watched && (value === undefined || value === null)) line += droppedPart(job.watched);
    if (job.id && socket) socket.write(line + "}\n");
  } catch (e) {
    report(e, job.id);
  }
  flushState();
}

function fail(job, e) {
  if (!jobs.delete(job.id) && job.id) return;
  report(e, job.id, job.id ? undefined : "callback");
  flushState();
}

/** Run `fn` and answer the job, at once where nothing has to be waited for. A plugin with flags gets their values first. */
function run(job, fn, args, shape = v => v) {
  jobs.set(job.id, job);
  if (me.flags.size && me.serving && job.id) refreshFlags().then(() => runNow(job, fn, args, shape));
  else runNow(job, fn, args, shape);
}

function runNow(job, fn, args, shape) {
  let value;
  try {
    value = fn(...args);
  } catch (e) {
    return fail(job, e);
  }
  if (typeof value?.then === "function") {
    value.then(v => answer(job, shape(v)), e => fail(job, e));
  } else {
    answer(job, shape(value));
  }
}

const toolValue = v => Array.isArray(v) && v.length === 2 && v[0] === null && typeof v[1] === "string"
  ? { output: "", success: false, error: v[1] } : v;

function onHook(m) {
  const job = { id: m.id ?? 0 };
  const entry = m.handler ? me.hooks[m.handler - 1] : me.hooks.find(h => h.point === m.point && !h.off);
  if (!entry) return report(new Error("there is no such handler"), job.id);
  const args = m.args ?? [], last = args.at(-1);
  const takes = entry.fn.length > args.length; // a handler that does not take the value does not change it
  const watched = TABLE[entry.point].kind === "chain" && typeof last === "object" && takes && !entry.dropped && job.id;
  if (watched) job.watched = { entry, value: last, before: shapeOf(last) };
  run(job, entry.fn, [makeCtx(m.ctx ?? {}, job), ...args]);
}

/** What a change of the value changes: all of it, of a request its last message and the numbers of the others. */
function shapeOf(value) {
  if (!Array.isArray(value?.messages)) return JSON.stringify(value);
  const { messages, tools, ...small } = value;
  return JSON.stringify([small, messages.at(-1), messages.length, tools?.length]);
}

/** A handler that changed its last argument and returned nothing: a mistake, said once. */
function droppedPart({ entry, value, before }) {
  if (shapeOf(value) === before) return "";
  entry.dropped = true;
  return `,"dropped":${JSON.stringify({ name: TABLE[entry.point].args.at(-1), ...entry.place })}`;
}

function onOffer(m, offer, makeArgs, shape) {
  const job = { id: m.id };
  offer ??= me.past.get(`${m.type} ${m.name}`);
  jobs.set(job.id, job);
  if (!offer) return fail(job, new Error(`there is no ${m.type} '${m.name}'`));
  job.controller = new AbortController();
  const ctx = makeCtx(m.ctx ?? {}, job);
  ctx.signal = job.controller.signal;
  run(job, offer.run, makeArgs(ctx), shape);
}

/** A generator says what it yields. */
function streaming(value, emit) {
  const iterator = value?.[Symbol.asyncIterator]?.() ?? (typeof value === "object" && value?.[Symbol.iterator] && value.next ? value : null);
  if (!iterator) return value;
  return (async () => {
    for (;;) {
      const { done, value: event } = await iterator.next();
      if (done) return event;
      emit(event);
    }
  })();
}

class Request {
  constructor(m) { Object.assign(this, { method: m.method, path: m.path, params: m.params, query: m.query, headers: m.headers, body: m.body }); }
  get json() { try { return JSON.parse(this.body); } catch { return undefined; } }
}

const matches = (pattern, name) => pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : pattern === name;

async function tell(name, data, among = me.events) {
  let first = null;
  for (const { name: pattern, fn } of [...among]) {
    if (!matches(pattern, name)) continue;
    try {
      await fn(data, name);
    } catch (e) {
      first ??= e;
      report(e, 0, `event '${name}'`);
    }
  }
  flushState();
  return first;
}

/** The route that takes a request of a hub that does not name it. */
function routeOf(m) {
  const path = String(m.path ?? "").split("/");
  const fits = title => {
    const [method, pattern] = title.split(" "), parts = pattern.split("/");
    return method === m.method && parts.length === path.length && parts.every((p, i) => p === path[i] || p.startsWith(":"));
  };
  return [...me.routes].find(([title]) => fits(title))?.[1];
}

const handlers = {
  load: onLoad,
  hook: onHook,
  tool: m => onOffer(m, me.tools.get(m.name), ctx => [ctx, m.input ?? {}], toolValue),
  route: m => onOffer(m, "name" in m ? me.routes.get(m.name) : routeOf(m), () => [new Request(m)]),
  command: m => onOffer(m, me.commands.get(m.name), ctx => [m.args ?? [], ctx]),
  prompt: m => onOffer(m, me.prompts.get(m.name), ctx => [ctx]),
  provider: m => {
    const emit = event => {
      if (!jobs.has(m.id)) throw new Error("the reader of this stream is gone");
      send({ type: "emit", id: m.id, event: event === undefined ? null : event });
    };
    const offer = me.providers.get(m.name) ?? me.past.get(`provider ${m.name}`);
    onOffer(m, offer && { run: (...args) => streaming(offer.run(...args), emit) }, ctx => [ctx, m.request ?? {}, emit]);
  },
  mcp_prompt: m => onOffer(m, me.mcpPrompts.get(m.name), ctx => [m.arguments ?? {}, ctx]),
  mcp_resource: m => onOffer(m, me.mcpResources.get(m.name), ctx => [m.uri, m.params ?? {}, ctx]),
  result: takeAnswer,
  error: takeAnswer,
  event(m) {
    if (POINTS.includes(m.name)) return onHook({ ...m.data, id: 0 });
    if (m.name === "plugin_start") {
      me.serving = true;
      for (const start of early.values()) start();
      early.clear();
      takeState(m.data?.state ?? {});
      return void refreshFlags().then(() => tell("plugin_start", { reason: m.data?.reason }));
    }
    tell(m.name, m.data);
  },
  watch(m) {
    const watched = me.watches.get(m.ref);
    if (watched && !me.leaving) tell("watch", { path: m.path, kind: m.kind }, [watched]);
  },
  cancel(m) {
    const job = jobs.get(m.id);
    if (!job) return;
    job.controller?.abort();
    const e = new Error("it was cancelled");
    e.code = "AFLOAT_TIMEOUT";
    e.stack = "";
    fail(job, e);
  },
  async shutdown(m) {
    me.leaving = true;
    for (const t of [...timers.keys(), ...early.keys()]) timer.cancel(t);
    const e = await tell("plugin_shutdown", { reason: m.reason });
    me.events.length = 0;
    if (!m.id) return send({ type: "result", value: !e }); // it need not have one: it is answered without
    const job = { id: m.id };
    jobs.set(job.id, job);
    if (e) fail(job, e); else answer(job, true);
  },
};

function dispatch(line) {
  let m;
  try { m = JSON.parse(line); } catch { return send({ type: "error", id: 0, message: "a line that is no message" }); }
  const handler = Object.hasOwn(handlers, m?.type ?? "") && handlers[m.type];
  if (handler) handler(m); else send({ type: "error", id: m?.id ?? 0, message: `unknown message '${m?.type}'` });
}

// ---- registering ----------------------------------------------------------------------------------

function place() {
  const { path, line } = faultOf(new Error());
  return line ? { file: path, line } : {};
}

/** What code registers and takes back without a pause reaches the hub at once, as one generation. */
function sendTogether(message) {
  socket?.cork();
  send(message);
  process.nextTick(() => socket?.uncork());
}

/** What a registration returns: `off()` takes it back. `forget` is what that means here; `ref` is 0 where the hub does not know of it. */
function makeHandle(ref, forget) {
  let on = true;
  return { off() {
    if (!on || me.leaving) return false;
    on = false;
    forget();
    if (ref) sendTogether({ type: "unregister", ref });
    return true;
  } };
}

let lastRef = 0;

function register(kind, fields, forget) {
  if (me.leaving) throw new Error(`${kind}: stale handle: this version of '${me.name}' has been replaced`);
  sendTogether({ type: "register", kind, ref: ++lastRef, ...fields, ...place() });
  return makeHandle(lastRef, forget);
}

/** The same for what is called by name. */
function registerIn(among, kind, name, entry, fields) {
  among.set(name, entry);
  return register(kind, fields, () => {
    me.past.set(`${kind} ${name}`, entry);
    among.delete(name);
  });
}

const removeFrom = (list, entry) => () => { list.splice(list.indexOf(entry), 1); };

function nearest(name, names) {
  const distance = (a, b) => {
    let row = [...Array(b.length + 1).keys()];
    for (let i = 1; i <= a.length; i++) {
      let last = row[0];
      row[0] = i;
      for (let j = 1; j <= b.length; j++) [last, row[j]] = [row[j], Math.min(row[j] + 1, row[j - 1] + 1, last + (a[i - 1] !== b[j - 1]))];
    }
    return row[b.length];
  };
  const best = [...names].sort((x, y) => distance(name, x) - distance(name, y))[0];
  return best && distance(name, best) <= 1 + name.length / 3 ? ` (did you mean '${best}'?)` : "";
}

const HOOK_OPTIONS = ["tool", "priority", "timeout_ms", "on_error", "name"];

function addHook(point, options, fn) {
  if (typeof options === "function") [options, fn] = [{}, options];
  if (typeof fn !== "function") throw new TypeError(`${point}: the handler must be a function`);
  for (const key of Object.keys(options)) {
    if (!HOOK_OPTIONS.includes(key)) throw new TypeError(`${point}: unknown option '${key}'${nearest(key, HOOK_OPTIONS)}`);
  }
  if (![undefined, "continue", "block"].includes(options.on_error)) throw new TypeError(`${point}: on_error must be 'continue' or 'block'`);
  const { file, line } = place();
  const entry = { point, fn, options, place: { path: file, line } };
  me.hooks.push(entry);
  return register("hook", { point, handler: me.hooks.length, ...options }, () => { entry.off = true; });
}

const TYPES = ["string", "integer", "number", "boolean", "array", "object"];

/** {sides: "integer", label: "string?"} as a JSON Schema. */
function schemaOf(short) {
  const properties = {}, required = [];
  for (const name of Object.keys(short).sort()) {
    const spec = typeof short[name] === "string" ? { type: short[name] } : { ...short[name] };
    const kind = String(spec.type ?? "");
    spec.type = kind.replace(/\?$/, "");
    if (!TYPES.includes(spec.type)) throw new TypeError(`tool: input.${name}: unknown type '${kind}'${nearest(kind, TYPES)}`);
    if (!kind.endsWith("?") && !("default" in spec)) required.push(name);
    properties[name] = spec;
  }
  return { type: "object", properties, required, additionalProperties: false };
}

function checkName(kind, name, among) {
  if (!/^[a-z][a-z0-9_-]{0,63}$/.test(name)) throw new TypeError(`${kind}: '${name}' is no name: it has to be like 'roll-dice'`);
  if (among.has(name)) throw new TypeError(`${kind} '${name}' is registered twice`);
}

function tool({ name, description = "", input, input_schema, permission, override, run: fn, ...rest }) {
  for (const key of Object.keys(rest)) throw new TypeError(`tool: unknown member '${key}'`);
  checkName("tool", name, me.tools);
  if (typeof fn !== "function") throw new TypeError(`tool '${name}' has no function 'run'`);
  if (input && input_schema) throw new TypeError("tool: give 'input' or 'input_schema', not both");
  const about = { description, input_schema: input_schema ?? (input ? schemaOf(input) : { type: "object" }), permission, override };
  return registerIn(me.tools, "tool", name, { run: fn, ...about }, { name, ...about });
}

function route(method, path, fn) {
  const name = `${String(method).toUpperCase()} ${path}`;
  if (typeof fn !== "function") throw new TypeError(`route '${name}' has no function`);
  if (me.routes.has(name)) throw new TypeError(`route '${name}' is registered twice`);
  return registerIn(me.routes, "route", name, { run: fn }, { method: String(method).toUpperCase(), path });
}

function command({ name, description = "", short = true, run: fn }) {
  checkName("command", name, me.commands);
  if (typeof fn !== "function") throw new TypeError(`command '${name}' has no function 'run'`);
  return registerIn(me.commands, "command", name, { run: fn, description }, { name, description, short });
}

function prompt(what) {
  const { id, text, priority = 0 } = typeof what === "object" ? what : { text: what };
  const n = me.prompts.size + 1;
  const name = id ?? (n === 1 ? me.name : `${me.name}-${n}`);
  checkName("prompt", name, me.prompts);
  if (typeof text !== "string" && typeof text !== "function") throw new TypeError("prompt: the text must be a string or a function");
  const fixed = typeof text === "string" ? text : undefined;
  return registerIn(me.prompts, "prompt", name, { run: text, text: fixed, priority }, { name, priority, text: fixed });
}

function provider({ name, models = [], description = "", stream, ...rest }) {
  for (const key of Object.keys(rest)) throw new TypeError(`provider: unknown member '${key}'`);
  checkName("provider", name, me.providers);
  if (typeof stream !== "function") throw new TypeError(`provider '${name}' has no function 'stream'`);
  if (!Array.isArray(models) || !models.every(m => typeof m === "string")) throw new TypeError("provider: models must be a list of names");
  return registerIn(me.providers, "provider", name, { run: stream, models, description }, { name, models, description });
}

const mcp = {
  tool,
  prompt({ name, title, description = "", arguments: given = [], get }) {
    if (typeof get !== "function") throw new TypeError(`mcp.prompt '${name}' has no function 'get'`);
    if (me.mcpPrompts.has(name)) throw new TypeError(`mcp.prompt '${name}' is registered twice`);
    const rows = given.map(a => ({ required: false, ...(typeof a === "string" ? { name: a } : a) }));
    return registerIn(me.mcpPrompts, "mcp_prompt", name, { run: get, description, arguments: rows }, { name, title, description, arguments: rows });
  },
  resource({ uri, uri_template, name, title, description = "", mime, values: offered, read }) {
    if ((uri === undefined) === (uri_template === undefined)) throw new TypeError("mcp.resource: give either 'uri' or 'uri_template'");
    if (typeof read !== "function") throw new TypeError(`mcp.resource '${name}' has no function 'read'`);
    const where = uri ?? uri_template;
    if (me.mcpResources.has(where)) throw new TypeError(`mcp.resource '${where}' is registered twice`);
    return registerIn(me.mcpResources, "mcp_resource", where, { run: read, description },
      { uri: where, template: uri === undefined, name: name ?? where, title, description, mimeType: mime, values: offered });
  },
  updated: uri => call("mcp.updated", { uri }),
};

function flag({ name, type, default: given, description = "", short = true }) {
  const kind = type ?? { boolean: "boolean", string: "string", number: Number.isInteger(given) ? "integer" : "number" }[typeof given] ?? "boolean";
  if (!["boolean", "string", "integer", "number"].includes(kind)) throw new TypeError("flag: type must be boolean, string, integer or number");
  checkName("flag", name, me.flags);
  const row = { type: kind, default: given ?? (kind === "boolean" ? false : undefined), description };
  row.value = row.default;
  const handle = registerIn(me.flags, "flag", name, row, { name, flag_type: kind, default: row.default, description, short });
  return Object.assign(() => row.value, handle);
}

/** Flags change by command; a handler sees them as they were when it was called. */
const refreshFlags = () => Promise.all([...me.flags].map(async ([name, row]) => {
  try {
    row.value = await call("flag.get", { name }) ?? row.default;
  } catch { /* the hub stops */ }
}));

function preserve_ui(...keys) {
  me.keys.push(...keys);
  const handles = keys.map(key => register("preserve_ui", { name: key }, removeFrom(me.keys, key)));
  return makeHandle(0, () => handles.forEach(h => h.off()));
}

function on(name, options, fn) {
  const point = POINTS.includes(name) ? name : `on_${name}`;
  if (POINTS.includes(point)) return addHook(point, options, fn);
  if (!LIFE.includes(name) && !String(name).includes(".") && !String(name).endsWith("*")) {
    throw new TypeError(`on: there is no hook point or event '${name}'${nearest(String(name), [...POINTS.map(p => p.slice(3)), ...POINTS, ...LIFE])}`);
  }
  const handler = fn ?? options;
  if (typeof handler !== "function") throw new TypeError(`on('${name}'): the handler must be a function`);
  const entry = { name, fn: handler };
  me.events.push(entry);
  const forget = removeFrom(me.events, entry);
  return LIFE.includes(name) ? makeHandle(0, forget) : register("event", { name }, forget);
}

const WATCH_OPTIONS = ["recursive", "pattern", "poll"];
const watch = {
  /** Be told of each file below `path` whose bytes changed: fn({path, kind: "created" | "changed" | "deleted"}). Returns a number for unwatch(). */
  directory(path, options, fn) {
    if (typeof options === "function") [options, fn] = [{}, options];
    if (typeof fn !== "function") throw new TypeError("watch.directory: the handler must be a function");
    if (!/^[/~]/.test(path)) throw new TypeError(`watch.directory: '${path}' is not an absolute path`);
    for (const key of Object.keys(options)) {
      if (!WATCH_OPTIONS.includes(key)) throw new TypeError(`watch.directory: unknown option '${key}'${nearest(key, WATCH_OPTIONS)}`);
    }
    const ref = lastRef + 1;
    const handle = register("watch", { path, ...options }, () => me.watches.delete(ref));
    me.watches.set(ref, { name: "watch", path, fn, handle });
    return ref;
  },
  unwatch: ref => me.watches.get(ref)?.handle.off() ?? false,
};

// ---- modules of the API ---------------------------------------------------------------------------

const values = new Map(), sent = new Map();
const state = {
  get(key, fallback) {
    if (!values.has(key) && fallback !== undefined) values.set(key, fallback);
    return values.has(key) ? values.get(key) : fallback;
  },
  set(key, value) { JSON.stringify(value); values.set(key, value); },
  clear(key) { values.delete(key); },
  keys() { return [...values.keys()].sort(); },
};

function takeState(given) {
  for (const [key, value] of Object.entries(given)) {
    if (sent.get(key) === JSON.stringify(value)) continue;
    const have = values.get(key);
    if (Array.isArray(have) && Array.isArray(value)) {
      have.splice(0, have.length, ...value);
    } else if (have && value && typeof have === "object" && typeof value === "object" && !Array.isArray(have) && !Array.isArray(value)) {
      for (const k of Object.keys(have)) delete have[k];
      Object.assign(have, value);
    } else {
      values.set(key, value);
    }
    sent.set(key, JSON.stringify(value));
  }
}

function flushState() {
  for (const [key, value] of values) {
    const text = JSON.stringify(value);
    if (sent.get(key) !== text) {
      sent.set(key, text);
      send({ type: "state", key, value });
    }
  }
  for (const key of sent.keys()) {
    if (values.has(key)) continue;
    sent.delete(key);
    send({ type: "state", key, value: null });
  }
}

const store = {
  get: async (key, fallback) => await call("store.get", { key }) ?? fallback,
  set: (key, value) => call("store.set", { key, value }),
  remove: key => call("store.remove", { key }),
  keys: () => call("store.keys"),
};
const timers = new Map(), early = new Map(); // early: those that begin when the version serves
const timer = {
  after(s, fn) { return addTimer(setTimeout, s, fn, true); },
  every(s, fn) { return addTimer(setInterval, Math.max(s, 0.01), fn, false); },
  cancel(id) {
    clearTimeout(timers.get(id));
    return early.delete(id) || timers.delete(id);
  },
  sleep: s => new Promise(done => setTimeout(done, s * 1000)),
};

function addTimer(how, s, fn, once) {
  const id = ++nextId;
  const start = () => timers.set(id, how(async () => {
    if (once) timers.delete(id);
    try { await fn(); } catch (e) { report(e, 0, "timer"); }
    flushState();
  }, s * 1000));
  if (me.serving) start(); else early.set(id, start);
  return id;
}

const noun = name => new Proxy(params => call(name, params), {
  get: (_, verb) => params => call(`${name}.${String(verb).replace(/_$/, "")}`, params),
});
const hub = new Proxy({}, { get: (_, name) => name === "call" ? call : noun(String(name)) });
const camel = name => name.replace(/_([a-z])/g, (_, c) => c.toUpperCase());

const api = {
  tool, route, command, prompt, provider, mcp, flag, preserve_ui, on, state, store, timer, watch, hub, HubError,
  response: answer => ({ status: 200, ...answer }),
  events: { on, off: handle => handle.off(), emit: (type, data) => call("event.emit", { type, data }) },
  config: { get: async (key, fallback) => await call("config.get", { key }) ?? fallback, all: () => call("config.get") },
  secrets: { get: name => call("secret.get", { name }) },
  log: Object.assign(text => log("info", text), Object.fromEntries(["debug", "info", "warn", "error"].map(
    level => [level, (...args) => log(level, util.format(...args))]))),
  ToolCall: given => ({ tool_call_id: "", input: {}, ...given }),
  ToolResult: given => ({ output: "", success: true, ...given }),
};
for (const point of POINTS) api[point] = (options, fn) => addHook(point, options, fn);
for (const name of Object.keys(api)) api[camel(name)] ??= api[name];

// ---- an object in place of calls ------------------------------------------------------------------

const each = (list, add) => Array.isArray(list) ? list.forEach(v => add(v)) : Object.entries(list ?? {}).forEach(([k, v]) => add(v, k));

function install(table) {
  const { api: version, name, description } = table;
  me.metadata = { ...me.metadata, ...(version !== undefined && { api: String(version) }), ...(name && { name }), ...(description && { description }) };
  each(table.hooks, (fn, key) => {
    const point = POINTS.find(p => p === key || camel(p) === key || p === `on_${key}`);
    if (!point) throw new TypeError(`hooks: there is no hook point '${key}'${nearest(String(key), POINTS)}`);
    for (const one of [fn].flat()) addHook(point, typeof one === "function" ? {} : one, one.run ?? one.fn ?? one);
  });
  each(table.tools, (v, key) => tool({ ...(key && { name: key }), ...v }));
  each(table.providers, (v, key) => provider({ ...(key && { name: key }), ...v }));
  each(table.commands, (v, key) => command(typeof v === "function" ? { name: key, run: v } : { ...(key && { name: key }), ...v }));
  each(table.routes, (v, key) => {
    const [method, path] = key ? key.split(" ") : [v.method, v.path];
    route(method, path, v.run ?? v);
  });
  if (table.prompt !== undefined) [table.prompt].flat().forEach(prompt);
  if (table.preserve_ui) preserve_ui(...[table.preserve_ui].flat());
  each(table.on, (fn, key) => on(key, fn));
}

// ---- Pi -------------------------------------------------------------------------------------------

const no = (what, instead = "") => () => { throw new Error(`Pi's ${what} is not available in Afloat${instead && `: ${instead}`}`); };
const textOf = content => typeof content === "string" ? content : (content ?? []).filter(c => c.type === "text").map(c => c.text).join("\n");

function piCtx(ctx) {
  const ui = { notify: (text, kind = "info") => log(kind === "warning" ? "warn" : kind, text), confirm: async () => false,
    select: async () => undefined, input: async () => undefined, editor: async () => undefined };
  return {
    cwd: ctx.working_dir, hasUI: false, signal: ctx.signal, model: ctx.model, mode: "rpc",
    ui: new Proxy(ui, { get: (t, k) => t[k] ?? (() => undefined) }),
    get sessionManager() { return no("ctx.sessionManager", "use hub.session")(); },
    get modelRegistry() { return no("ctx.modelRegistry")(); },
    abort: () => call("session.interrupt", { id: ctx.session_id }),
    compact: () => call("session.compact", { id: ctx.session_id }),
    isIdle: () => false, getSystemPrompt: () => "", hasPendingMessages: () => false,
  };
}

/** What Pi's events are here: how each handler becomes a hook or an event of ours. */
const piBlocked = new Map();
const piEvents = {
  session_start: fn => on("plugin_start", ev => fn({ type: "session_start", reason: ev.reason === "reload" ? "reload" : "startup" }, piCtx({}))),
  session_shutdown: fn => on("plugin_shutdown", ev => fn({ type: "session_shutdown", reason: ev.reason === "reload" ? "reload" : "quit" }, piCtx({}))),
  agent_start: fn => addHook("on_begin", ctx => void fn({ type: "agent_start" }, piCtx(ctx))),
  agent_end: fn => addHook("on_done", ctx => void fn({ type: "agent_end", messages: [] }, piCtx(ctx))),
  turn_start: fn => addHook("on_before_model", async (ctx) => { await fn({ type: "turn_start", turnIndex: 0, timestamp: Date.now() }, piCtx(ctx)); }),
  turn_end: fn => addHook("on_after_model", async (ctx, r) => {
    await fn({ type: "turn_end", turnIndex: 0, message: { role: "assistant", content: [{ type: "text", text: r.text }] }, toolResults: [] }, piCtx(ctx));
  }),
  message_update: fn => addHook("on_model_delta", (ctx, d) => void fn({ type: "message_update", assistantMessageEvent: { type: "text_delta", delta: d.text ?? "" } }, piCtx(ctx))),
  message_end: fn => addHook("on_after_model", async (ctx, r) => {
    await fn({ type: "message_end", message: { role: "assistant", content: [{ type: "text", text: r.text }] } }, piCtx(ctx));
  }),
  input: fn => addHook("on_user_message", async (ctx, text) => {
    const got = await fn({ type: "input", text, images: [], source: "interactive" }, piCtx(ctx));
    if (got?.action === "handled") log("warn", "pi.on('input'): 'handled' is not available in Afloat; the message is sent");
    return got?.action === "transform" ? got.text : undefined;
  }),
  before_agent_start: fn => addHook("on_before_model", async (ctx, request) => {
    const got = await fn({ type: "before_agent_start", prompt: ctx.user_text, images: [], systemPrompt: request.system ?? "" }, piCtx(ctx));
    if (got?.message) request.messages.push({ role: "user", content: textOf(got.message.content) });
    if (got?.systemPrompt !== undefined) request.system = got.systemPrompt;
    return got ? request : undefined;
  }),
  context: fn => addHook("on_before_model", async (ctx, request) => {
    const got = await fn({ type: "context", messages: structuredClone(request.messages) }, piCtx(ctx));
    return got?.messages ? { ...request, messages: got.messages } : undefined;
  }),
  tool_call: fn => {
    addHook("on_tool_call", async (ctx, c) => {
      const event = { type: "tool_call", toolName: c.tool_name, toolCallId: c.tool_call_id, input: c.input };
      try {
        const got = await fn(event, piCtx(ctx));
        if (got?.block) piBlocked.set(c.tool_call_id, got.reason ?? "blocked by an extension");
      } catch (e) {
        piBlocked.set(c.tool_call_id, e.message);   // as Pi does: a handler that fails blocks the call
      }
      return { ...c, input: event.input };
    });
    if (piBlocked.hooked) return;
    piBlocked.hooked = true;
    addHook("on_permission", (ctx, c) => {
      const reason = piBlocked.get(c.tool_call_id);
      piBlocked.delete(c.tool_call_id);
      return reason === undefined ? undefined : ["deny", reason];
    });
  },
  tool_result: fn => addHook("on_tool_result", async (ctx, c, r) => {
    const got = await fn({ type: "tool_result", toolName: c.tool_name, toolCallId: c.tool_call_id, input: c.input,
      content: [{ type: "text", text: r.output }], details: undefined, isError: r.success === false }, piCtx(ctx));
    if (!got) return undefined;
    return { ...r, ...(got.content !== undefined && { output: textOf(got.content) }), ...(got.isError !== undefined && { success: !got.isError }) };
  }),
};
piEvents.session_switch = undefined;

function makePi() {
  const bus = new Map();
  const pi = {
    on(event, fn) {
      const add = piEvents[event];
      if (!add) throw new Error(`Pi's event '${event}' is not available in Afloat${nearest(event, Object.keys(piEvents).filter(k => piEvents[k]))}`);
      add(fn);
    },
    registerTool(t) {
      tool({ name: t.name, description: [t.description, ...(t.promptGuidelines ?? [])].filter(Boolean).join("\n"),
        input_schema: JSON.parse(JSON.stringify(t.parameters ?? { type: "object" })),
        async run(ctx, input) {
          const params = t.prepareArguments ? t.prepareArguments(input) : input;
          const got = await t.execute("", params, ctx.signal, part => ctx.progress(textOf(part.content)), piCtx(ctx));
          return { output: textOf(got?.content), success: !got?.isError, ...(got?.isError && { error: textOf(got.content) }) };
        } });
    },
    registerCommand(name, c) {
      command({ name, description: c.description, run: (args, ctx) => c.handler(args.join(" "), piCtx(ctx)) });
    },
    registerFlag(name, f) { pi.flags.set(name, flag({ name, type: f.type, default: f.default, description: f.description })); },
    getFlag: name => pi.flags.get(name)?.(),
    exec: (cmd, args = [], o = {}) => new Promise(done => {
      const child = spawn(cmd, args, { cwd: o.cwd, signal: o.signal, timeout: o.timeout, stdio: ["ignore", "pipe", "pipe"] });
      let stdout = "", stderr = "";
      child.stdout.on("data", d => { stdout += d; });
      child.stderr.on("data", d => { stderr += d; });
      child.on("error", e => done({ stdout, stderr: stderr + e.message, code: 127, killed: false }));
      child.on("close", (code, signal) => done({ stdout, stderr, code: code ?? 1, killed: signal !== null }));
    }),
    events: {
      on(name, fn) { bus.set(name, [...(bus.get(name) ?? []), fn]); return () => bus.set(name, bus.get(name).filter(f => f !== fn)); },
      emit(name, data) { for (const fn of bus.get(name) ?? []) fn(data); },
    },
    flags: new Map(),
  };
  const instead = { registerShortcut: "terminals have ui/keybindings.lua", sendUserMessage: "use hub.session.message({id, text})",
    sendMessage: "use hub.session.message({id, text})", registerProvider: "configure [providers.NAME]" };
  return new Proxy(pi, { get: (t, k) => k in t || typeof k === "symbol" ? t[k] : no(k, instead[k]) });
}

// ---- loading --------------------------------------------------------------------------------------

const full = file => me.single ? me.path : `${me.path}/${file}`;
const modules = new Map();
const maps = new Map();   // file: line of what runs to line of what was written
const lineIn = (file, line) => maps.get(file)?.[line] ?? line;

/** Lines of a source map: for each line of what was made, the line that it came from. */
function linesOf(map) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const lines = [];
  let source = 0;
  map.mappings.split(";").forEach((group, n) => {
    let first;
    for (const segment of group.split(",").filter(Boolean)) {
      const fields = [];
      for (let i = 0, value = 0, shift = 0; i < segment.length; i++) {
        const digit = digits.indexOf(segment[i]);
        value |= (digit & 31) << shift;
        shift += 5;
        if (!(digit & 32)) {
          fields.push(value & 1 ? -(value >> 1) : value >> 1);
          value = shift = 0;
        }
      }
      source += fields[2] ?? 0;
      first ??= source + 1;
    }
    lines[n + 1] = first;
  });
  return lines;
}

/** TypeScript without its types: by Node itself where it can, else by esbuild. */
function strip(file, text) {
  if (nodeModule.stripTypeScriptTypes) return nodeModule.stripTypeScriptTypes(text);
  for (const program of [process.env.AFLOAT_ESBUILD, "esbuild"].filter(Boolean)) {
    const done = spawnSync(program, ["--loader=ts", "--format=esm", "--target=node18", "--sourcemap=inline", "--log-level=error", `--sourcefile=${full(file)}`],
      { input: text, encoding: "utf8", maxBuffer: 64 << 20 });
    if (done.error?.code === "ENOENT") continue;
    if (done.status !== 0) {
      const [, line, message] = /:(\d+):\d+:[\s\S]*?|$/.exec(done.stderr) ?? [];
      const e = new SyntaxError((/ERROR\]? ([^\n]*)/.exec(done.stderr)?.[1] ?? message ?? done.stderr).trim());
      e.stack = `${full(file)}:${/:(\d+):\d+:/.exec(done.stderr)?.[1] ?? line ?? 0}`;
      throw e;
    }
    const at = done.stdout.lastIndexOf("//# sourceMappingURL=");
    const map = JSON.parse(Buffer.from(done.stdout.slice(at).split("base64,")[1], "base64").toString());
    maps.set(full(file), linesOf(map));
    return done.stdout.slice(0, at);
  }
  throw new Error(`${file} is TypeScript: install esbuild (npm install -g esbuild) or Node 22.13 or newer, or write it as .mjs`);
}

/** The error with its place, which V8 keeps to itself here: another Node says it. */
function placed(e, file, text) {
  const done = spawnSync(process.execPath, ["--input-type=module", "--check", "-"], { input: text, encoding: "utf8" });
  const line = /^\[stdin\]:(\d+)/.exec(done.stderr ?? "")?.[1];
  if (line) e.stack = `${full(file)}:${line}`;
  return e;
}

function makeModule(file) {
  if (modules.has(file)) return modules.get(file);
  let text = me.files[file];
  if (file.endsWith(".ts")) text = strip(file, text);
  try {
    return compileModule(file, text);
  } catch (e) {
    throw e instanceof SyntaxError ? placed(e, file, text) : e;
  }
}

function compileModule(file, text) {
  const made = file.endsWith(".json")
    ? new vm.SyntheticModule(["default"], function () { this.setExport("default", JSON.parse(text)); }, { identifier: full(file) })
    : new vm.SourceTextModule(text, { identifier: full(file),
      initializeImportMeta: meta => { meta.url = pathToFileURL(full(file)).href; },
      importModuleDynamically: async name => {
        const found = await link(name, made);
        if (found.status === "unlinked") await found.link(link);
        if (found.status === "linked") await found.evaluate();
        return found;
      } });
  modules.set(file, made);
  return made;
}

function resolveOwn(name, from) {
  const dir = from.includes("/") ? from.slice(0, from.lastIndexOf("/")) : "";
  const rel = new URL(name, `file:///${dir ? dir + "/" : ""}`).pathname.slice(1);
  const tries = [rel, `${rel}.mjs`, `${rel}.js`, `${rel}.ts`, rel.replace(/\.js$/, ".ts"), `${rel}/index.mjs`, `${rel}/index.js`, `${rel}/index.ts`];
  return tries.find(f => f in me.files);
}

async function synthetic(key, exports) {
  if (!modules.has(key)) {
    modules.set(key, new vm.SyntheticModule(Object.keys(exports), function () {
      for (const [k, v] of Object.entries(exports)) this.setExport(k, v);
    }, { identifier: key }));
  }
  return modules.get(key);
}

async function link(name, from) {
  const file = [...modules].find(([, m]) => m === from)?.[0] ?? me.server;
  if (name === "afloat") return synthetic("afloat", { ...api, options: me.options, default: api });
  if (/^\.{1,2}\//.test(name)) {
    const own = me.single ? undefined : resolveOwn(name, file);
    if (own === undefined) throw new Error(`${file}: cannot find '${name}' in the plugin's directory`);
    return makeModule(own);
  }
  const where = createRequire(full(file));
  const exports = await import(name.startsWith("node:") ? name : pathName(where, name));
  return synthetic(name, { default: exports.default, ...exports });
}

function pathName(where, name) {
  if (nodeModule.builtinModules.includes(name)) return `node:${name}`;
  try {
    return pathToFileURL(where.resolve(name)).href;
  } catch {
    throw new Error(`cannot find the package '${name}': install it beside the plugin with npm`);
  }
}

async function loadFile() {
  Object.assign(globalThis, { ...api, options: me.options });
  if (VALIDATE) globalThis.test = (name, fn) => me.tests.push({ name, fn });
  const module = makeModule(me.server);
  await module.link(link);
  await module.evaluate();
  const given = module.namespace;
  if (given.plugin && typeof given.plugin === "object") me.metadata = { ...given.plugin };
  if (typeof given.default === "function") await given.default(makePi());
  else if (given.default && typeof given.default === "object") install(given.default);
  const version = String(me.metadata.api ?? "1.0");
  if (version.split(".")[0] !== "1") throw new Error(`Incompatible plugin API version: ${version} (expected 1.0)`);
  return given;
}

function prepare(m) {
  const server = m.server ?? m.path.slice(m.path.lastIndexOf("/") + 1);
  Object.assign(me, { name: m.name, path: m.path, server, single: m.single ?? true, files: m.files ?? {}, options: m.options ?? {} });
  for (const [key, value] of Object.entries(m.state ?? {})) {
    values.set(key, value);
    sent.set(key, JSON.stringify(value));
  }
  for (const level of ["log", "info", "debug", "warn", "error"]) {
    console[level] = (...args) => log(level === "log" ? "info" : level, util.format(...args));
  }
}

async function onLoad(m) {
  if (me.loaded) return send({ type: "error", id: m.id ?? 0, message: "it was loaded already" });
  prepare(m);
  try {
    if (!m.files) me.files = { [me.server]: fs.readFileSync(me.path, "utf8") }; // the hub sends what it hashed; without it the file is read
    await loadFile();
  } catch (e) {
    const told = faultOf(e);
    if (String(e?.message).startsWith("Incompatible plugin API version")) Object.assign(told, { message: e.message, code: "API_INCOMPATIBLE" });
    send({ type: "failed", ...told });
    return;
  }
  me.loaded = true;
  flushState();
  send({ type: "loaded", metadata: { api: "1.0", name: me.name, ...me.metadata } });
}

// ---- validation -----------------------------------------------------------------------------------

function matchPath(pattern, path) {
  const params = {}, want = pattern.split("/"), got = path.split("/");
  for (let i = 0; i < want.length; i++) {
    if (want[i] === "*" && i < got.length) return { ...params, "*": got.slice(i).join("/") };
    if (want[i].startsWith(":") && got[i] !== undefined) params[want[i].slice(1)] = got[i];
    else if (want[i] !== got[i]) return null;
  }
  return want.length === got.length ? params : null;
}

const need = (thing, what, name) => { if (!thing) throw new Error(`the plugin has no ${what} '${name}'`); return thing; };
const testCtx = given => ({ session_id: "", state: {}, memory: [], progress() {}, ...given });
const t = {
  ok(v, message = "not true") { if (!v) throw new Error(message); },
  equal(got, want) { if (!util.isDeepStrictEqual(got, want)) throw new Error(`${util.inspect(got)}, wanted ${util.inspect(want)}`); },
  tool: (name, input = {}, ctx) => need(me.tools.get(name), "tool", name).run(testCtx(ctx), input),
  command: (name, ...args) => need(me.commands.get(name), "command", name).run(args, testCtx()),
  async provider(name, request = { messages: [] }, ctx) {
    const said = [];
    const emit = event => said.push(event);
    const value = await streaming(need(me.providers.get(name), "provider", name).run(testCtx(ctx), request, emit), emit);
    return value === undefined ? said : [...said, value];
  },
  mcpPrompt: (name, args = {}) => need(me.mcpPrompts.get(name), "mcp.prompt", name).run(args, testCtx()),
  mcpResource: (uri, params = {}) => need(me.mcpResources.get(uri), "mcp.resource", uri).run(uri, params, testCtx()),
  route(method, path, given = {}) {
    for (const [name, r] of me.routes) {
      const [have, pattern] = name.split(" ");
      const params = have === method && matchPath(pattern, path);
      if (params) return r.run(new Request({ method, path, params, query: {}, headers: {}, body: "", ...given }));
    }
    throw new Error(`the plugin has no route '${method} ${path}'`);
  },
  async hook(point, ...args) {
    const name = POINTS.includes(point) ? point : `on_${point}`;
    const found = me.hooks.filter(h => h.point === name && !h.off);
    need(found.length, "hook", point);
    let result;
    for (const h of found) {
      const v = await h.fn(...args);
      if (v !== undefined && v !== null) {
        result = v;
        if (TABLE[name].kind === "chain") args = [...args.slice(0, -1), v];
      }
    }
    return result;
  },
};

async function runTests() {
  const own = me.server.includes("/") ? me.server.slice(0, me.server.lastIndexOf("/") + 1) : "";
  const file = ["test.mjs", "test.js", "test.ts"].map(f => own + f).find(f => f in me.files && f !== me.server);
  if (file) {
    const module = makeModule(file);
    await module.link(link);
    await module.evaluate();
  }
  const results = [];
  for (const { name, fn } of me.tests) {
    try {
      await fn(t);
      results.push({ name, ok: true });
    } catch (e) {
      const told = faultOf(e);
      results.push({ name, ok: false, error: `${told.path.split("/").pop()}:${told.line}: ${told.message}` });
    }
  }
  return results;
}

const without = (o, ...keys) => Object.fromEntries(Object.entries(o).filter(([k, v]) => !keys.includes(k) && v !== undefined));

async function validate() {
  const request = JSON.parse(fs.readFileSync(0, "utf8"));
  let result;
  prepare(request);
  try {
    await loadFile();
    const hooks = me.hooks.filter(h => !h.off);
    const value = {
      name: me.name, hooks: POINTS.filter(p => hooks.some(h => h.point === p)), metadata: { api: "1.0", name: me.name, ...me.metadata },
      tools: [...me.tools.keys()], routes: [...me.routes.keys()], commands: [...me.commands.keys()],
      contributions: {
        handlers: hooks.map(h => ({ point: h.point, tool: h.options.tool, priority: h.options.priority ?? 0 })),
        tools: [...me.tools].map(([name, o]) => ({ name, ...without(o, "run") })), routes: [...me.routes.keys()],
        commands: [...me.commands].map(([name, o]) => ({ name, description: o.description })),
        prompts: [...me.prompts].map(([id, o]) => ({ id, ...without(o, "run") })),
        flags: [...me.flags].map(([name, o]) => ({ name, ...without(o, "value") })), preserve_ui: me.keys, events: me.events.map(e => e.name),
        watches: [...me.watches.values()].map(w => w.path),
        providers: [...me.providers].map(([name, o]) => ({ name, ...without(o, "run") })),
        mcp_prompts: [...me.mcpPrompts].map(([name, o]) => ({ name, description: o.description })),
        mcp_resources: [...me.mcpResources].map(([name, o]) => ({ name, description: o.description })),
      },
    };
    if (request.test) value.tests = await runTests();
    result = { ok: true, value };
  } catch (e) {
    result = { ok: false, ...faultOf(e) };
    if (String(e?.message).startsWith("Incompatible plugin API version")) result.message = e.message;
  }
  fs.writeSync(1, JSON.stringify(result));
  process.exit(0);
}

// ---- the process ----------------------------------------------------------------------------------

function serve() {
  let begun = [], held = 0; // what came of a line whose end has not come, and its bytes
  const read = (n, buffer) => { // without a stream in between, which costs a tenth of a round trip
    let at = 0;
    for (let end; (end = buffer.indexOf(10, at)) >= 0 && end < n; at = end + 1) {
      const whole = begun.length ? Buffer.concat([...begun, buffer.subarray(at, end)]).toString() : buffer.utf8Slice(at, end);
      begun = [];
      held = 0;
      dispatch(whole);
    }
    if (at < n) begun.push(Buffer.from(buffer.subarray(at, n)));
    held += n - at;
    if (held > LINE_MAX) process.exit(0);
    return true;
  };
  socket = new net.Socket({ fd: FD, onread: { buffer: Buffer.allocUnsafe(READ), callback: read } });
  socket.resume();
  socket.on("close", () => process.exit(0));
  socket.on("error", () => process.exit(0));
  process.on("uncaughtException", e => report(e, 0, "callback"));
  process.on("unhandledRejection", e => report(e, 0, "callback"));
}

if (VALIDATE) validate(); else serve();
