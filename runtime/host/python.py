# The far end of the host protocol for plugins in Python: one process runs one version of one plugin.
#
#   fd 3: JSON lines from and to the hub       load ── register... ── loaded ── hook, tool, route, ... ── result
#
# Only the standard library is used, and little of it: `json`, `dataclasses`, `traceback` and `asyncio` would double
# the memory of an idle plugin, so they are left to plugins that import them. Plain functions and coroutines are run
# by the small loop below; once a plugin has imported asyncio, everything runs inside an asyncio loop instead.
#
# Hooks run one after another in the main thread. Tools, routes, commands and prompt sections that are plain
# functions run in threads of their own, so that a slow one holds up no other; coroutines run in the loop.
#
# With --validate the request is on stdin, nothing has an effect, and the answer is one JSON object on stdout.

import os
import select
import signal
import sys
import time

FD = 3
READ = 65536
LINE_MAX = 16 << 20
LOCAL_TURNS = 64


# ---- JSON -----------------------------------------------------------------------------------------

class _Scan:
    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = {"NaN": None, "Infinity": None, "-Infinity": None}.__getitem__
    memo = {}


def _plain(value):
    """What JSON does not know: models, sets, tuples' kin."""
    if isinstance(value, Record):
        return value._members()
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise TypeError(f"{type(value).__name__} is no JSON value")


try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner
    _scan = make_scanner(_Scan)
    _encode = make_encoder(None, _plain, encode_basestring_ascii, None, ":", ",", False, False, False)

    def decode(text):
        return _scan(text.lstrip() if text[:1].isspace() else text, 0)[0]

    def encode(value):
        return "".join(_encode(value, 0))
except (ImportError, TypeError):  # another Python than CPython
    import json

    decode = json.loads

    def encode(value):
        return json.dumps(value, default=_plain, separators=(",", ":"))


# ---- hook points ----------------------------------------------------------------------------------

POINTS = decode(sys.argv[3])  # {name: {kind, args}}, in the order of a turn: src/hook/points.def


# ---- models ---------------------------------------------------------------------------------------

class _RecordType(type):
    """Dataclass fields are made at the first access: importing dataclasses costs more than a whole plugin."""

    def __getattr__(cls, name):
        if name != "__dataclass_fields__" or not cls.__dict__.get("_fields"):
            raise AttributeError(name)
        import dataclasses
        specs = [(f, object) if d is _MISSING else (f, object, dataclasses.field(default=d)) for f, d in cls._fields]
        cls.__dataclass_fields__ = dataclasses.make_dataclass(cls.__name__, specs).__dataclass_fields__
        return cls.__dataclass_fields__


_MISSING = object()


class Record(metaclass=_RecordType):
    _fields = ()

    def __init__(self, *args, **kwargs):
        names = [name for name, _ in self._fields]
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes at most {len(names)} arguments")
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names:
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
            if name in given:
                raise TypeError(f"{type(self).__name__} got two values for {name!r}")
            given[name] = value
        for name, default in self._fields:
            if name in given:
                value = given[name]
            elif default is _MISSING:
                raise TypeError(f"{type(self).__name__} needs {name!r}")
            else:
                value = default() if isinstance(default, type) else default
            self.__dict__[name] = value

    def _members(self):
        return {name: self.__dict__.get(name) for name, _ in self._fields}

    def __repr__(self):
        inside = ", ".join(f"{name}={self.__dict__.get(name)!r}" for name, _ in self._fields)
        return f"{type(self).__name__}({inside})"

    def __eq__(self, other):
        return type(self) is type(other) and self._members() == other._members()

    __hash__ = None


class PluginContext(Record):
    _fields = (("session_id", ""), ("working_dir", ""), ("user_text", ""), ("state", dict), ("memory", list),
               ("turn_id", ""), ("bot", None), ("model", None), ("depth", 0), ("outcome", None))
    _id = 0

    def progress(self, text):
        """Say how far a tool is."""
        if self._id:
            send({"type": "progress", "id": self._id, "text": str(text)})


class ToolCall(Record):
    _fields = (("tool_name", _MISSING), ("tool_call_id", ""), ("input", dict))


class ToolResult(Record):
    _fields = (("tool_call_id", ""), ("tool_name", ""), ("output", ""), ("success", True), ("error", None))


class Request:
    """What a route's handler gets."""

    def __init__(self, m):
        self.method, self.path, self.params = m["method"], m["path"], m["params"]
        self.query, self.headers, self.body = m["query"], m["headers"], m["body"]

    @property
    def json(self):
        try:
            return decode(self.body)
        except Exception:
            return None


class Response(Record):
    _fields = (("status", 200), ("headers", dict), ("body", None))


def _call_of(d):
    known = {k: v for k, v in d.items() if k in ("tool_name", "tool_call_id", "input")}
    return ToolCall(**known)


def _result_of(d):
    known = {k: v for k, v in d.items() if k in ("tool_call_id", "tool_name", "output", "success", "error")}
    return ToolResult(**known)


MAKERS = {"call": _call_of, "result": _result_of}  # of the arguments that are models


# ---- the wire -------------------------------------------------------------------------------------

class _Plugin:
    """Everything of the one plugin that runs here."""
    name = path = server = ""
    directory = ""
    files = {}
    single = True
    options = {}
    validating = serving = leaving = loaded = False
    hooks = []       # (point, function), also those that were taken back
    tools = {}
    routes = {}
    commands = {}
    prompts = {}
    providers = {}
    mcp_prompts = {}
    mcp_resources = {}
    flags = {}
    events = []      # (name, function)
    watches = {}     # (function, handle) by number
    keys = []
    past = {}        # what was taken back, by kind and name: a turn may still call it
    handles = []     # (function, handle) of all that is registered
    metadata = None
    seen = []        # (kind, fields) of registrations, of a validation


me = _Plugin()
_lock = None   # made with the first thread
_main = None
_out = []
_held = []     # lines that go out together with the next one
_workers = set()  # threads that run handlers


def send(message):
    if me.validating:
        return
    data = (encode(message) + "\n").encode("ascii")
    if me.loaded and _loop is None and message["type"] in ("register", "unregister") and in_handler():
        _held.append(data)  # what a handler registers reaches the hub at once, as one generation
        return
    put(data)


def in_handler():
    """Does this thread say something when its work is done, or before it waits?"""
    return _lock is None or __import__("_thread").get_ident() in _workers


def put(data):
    if _lock is not None:
        with _lock:
            _write(data)
    else:
        _write(data)


def let_go():
    """Before waiting: nothing is held back."""
    if _held:
        put(b"")


def _write(data):
    if _held:
        before = []
        while _held:
            before.append(_held.pop(0))  # another thread may add one meanwhile
        data = b"".join(before) + data
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(FD, view):]
        except InterruptedError:
            pass


def fault_of(e):
    """Message, path and line of an exception, as the plugin's author sees it."""
    path, line = None, 0
    text = str(e)
    if isinstance(e, SyntaxError):
        path, line = e.filename, e.lineno or 0
        text = e.msg
    tb = e.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not isinstance(e, SyntaxError) and name.startswith(me.directory) and not name.startswith("/proc/"):
            path, line = name, tb.tb_lineno
        tb = tb.tb_next
    message = f"{type(e).__name__}: {text}" if text else type(e).__name__
    return {"message": message, "path": path or me.path, "line": line}


def trace_of(e):
    lines, tb = [], e.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if not code.co_filename.startswith("/proc/"):
            lines.append(f"  {code.co_filename}:{tb.tb_lineno}: in {code.co_name}")
        tb = tb.tb_next
    return "\n".join(lines)


def log(level, text):
    send({"type": "log", "level": level, "text": str(text)})


def report(e, mid=0, what=None):
    m = {"type": "error", **fault_of(e)}
    if mid:
        m["id"] = mid
    if what:
        m["hook"] = what
    if isinstance(e, MemoryError):
        m["code"] = "MEMORY_LIMIT"
    if isinstance(e, Timeout):
        m["code"] = "HOOK_TIMEOUT"
    trace = trace_of(e)
    log("error", f"{m['message']}\n{trace}" if trace else m["message"])
    send(m)


class Timeout(BaseException):
    """Not an Exception: a plugin that catches those does not catch this."""


class HubError(Exception):
    """An operation of the hub failed."""


# ---- asking the hub -------------------------------------------------------------------------------

_asked = {}     # id: [done, value, message, event or None]
_backlog = []   # messages that came while an answer was waited for
_next_id = 0
_buffer = b""


def call(op, **params):
    """Run an operation of the hub and return its answer. Blocks."""
    global _next_id
    if me.validating:
        raise HubError("not while validating")
    if not me.loaded:
        raise HubError(f"{op}: not while the plugin is loading")
    import _thread
    _next_id += 1
    mid, slot = _next_id, [False, None, None, None]
    inside = _thread.get_ident() == _main
    if not inside:
        slot[3] = _thread.allocate_lock()
        slot[3].acquire()
    _asked[mid] = slot
    send({"type": "call", "id": mid, "op": op, "params": params})
    if not inside:
        slot[3].acquire()
    while not slot[0]:
        for message in read_messages(True):
            if not take_answer(message):
                _backlog.append(message)
    if _backlog and _loop is not None and inside:
        _loop.call_soon(drain)  # no line may come that would make the loop look there
    if slot[2] is not None:
        raise HubError(f"{op}: {slot[2]}")
    return slot[1]


def take_answer(m):
    if m.get("type") not in ("result", "error"):
        return False
    slot = _asked.pop(m.get("id"), None)
    if slot is None:
        if m["type"] == "error":
            log("error", m.get("message"))
        return True
    if m["type"] == "error":
        slot[2] = m.get("message") or "failed"
    slot[1] = m.get("value")
    slot[0] = True
    if slot[3] is not None:
        slot[3].release()
    return True


class _Gone(Exception):
    pass


def read_messages(block):
    """The messages that have come; with `block` at least one."""
    global _buffer
    found = []
    while True:
        if not block and not select.select((FD,), (), (), 0)[0]:
            return found
        let_go()
        data = os.read(FD, READ)
        if not data:
            raise _Gone
        _buffer += data
        if b"\n" in data:
            *lines, _buffer = _buffer.split(b"\n")
            for line in lines:
                try:
                    found.append(decode(line.decode("utf-8")))
                except (ValueError, StopIteration):
                    send({"type": "error", "id": 0, "message": "a line that is no message"})
            return found
        if len(_buffer) > LINE_MAX:
            raise _Gone


# ---- running handlers -----------------------------------------------------------------------------

async def _sample():
    pass


_coro = _sample()
Coroutine = type(_coro)
_coro.close()
_tasks = {}      # id: job, of what has not been answered
_timers = []     # [due, id, every, function, continues a coroutine], the next first
_early = []      # those that begin when the version serves; `due` is how long from there
_local = {}      # turn: values of ctx.state that JSON does not know
_state_seen = {}


class Job:
    __slots__ = ("id", "ctx", "before", "memory", "shape", "coro", "due", "over", "watched")

    def __init__(self, mid):
        self.id, self.ctx, self.over, self.coro, self.due = mid, None, False, None, 0
        self.before = self.memory = self.watched = None
        self.shape = None


def make_ctx(d, job):
    ctx = PluginContext.__new__(PluginContext)
    ctx.__dict__.update(session_id="", working_dir="", user_text="", turn_id="", bot=None, model=None, depth=0,
                        outcome=None, state={}, memory=[])
    ctx.__dict__.update(d)
    job.before, job.memory = encode(ctx.state), encode(ctx.memory)
    kept = _local.get(ctx.turn_id)
    if kept:
        ctx.state.update(kept)
    job.ctx = ctx
    return ctx


def split_state(ctx):
    """ctx.state without what JSON does not know, which stays in this process for the rest of the turn."""
    try:
        text = encode(ctx.state)
        _local.pop(ctx.turn_id, None)
        return text
    except (TypeError, ValueError):
        pass
    shared, own = {}, {}
    for key, value in ctx.state.items():
        try:
            encode(value)
            shared[str(key)] = value
        except (TypeError, ValueError):
            own[key] = value
    _local[ctx.turn_id] = own
    while len(_local) > LOCAL_TURNS:
        _local.pop(next(iter(_local)))
    return encode(shared)


def answer(job, value):
    if job.over:
        return
    job.over = True
    _tasks.pop(job.id, None)
    parts = ['{"type":"result","id":%d,"value":' % job.id if job.id else "{"]
    try:
        if job.shape is not None:
            value = job.shape(value)
        if not job.id:
            return
        parts.append(encode(value))
        if job.ctx is not None:
            state = split_state(job.ctx)
            if state != job.before:
                parts.append(',"state":' + state)
            if encode(job.ctx.memory) != job.memory:
                parts.append(',"memory":' + encode(job.ctx.memory))
        if value is None and job.watched is not None:
            parts.append(dropped_part(job))
    except Exception as e:
        report(e, job.id)
        return
    parts.append("}\n")
    if me.validating:
        return
    put("".join(parts).encode("ascii"))
    flush_state()


def fail(job, e):
    if not job.over:
        job.over = True
        _tasks.pop(job.id, None)
        report(e, job.id, None if job.id else "callback")
        flush_state()


_due = 0      # when the function that runs has to end; 0: it need not, or none runs
_alarm = 0    # when the timer fires; 0: it is not set


def run(job, fn, args, kwargs=None, deadline_ms=0):
    """Run `fn` for `job` in the main thread: to its end, or until it waits."""
    global _due
    if deadline_ms:
        set_deadline(time.monotonic(), deadline_ms / 1000)
    try:
        value = fn(*args, **(kwargs or {}))
        if type(value) is Coroutine:
            begin(job, value)
            value = Coroutine
        _due = 0
    except BaseException as e:
        _due = 0
        fail(job, as_exception(e))
        value = Coroutine
    if value is not Coroutine:
        answer(job, value)


def set_deadline(now, seconds):
    """The timer stays set when a function ends, so that most calls cost no system call: see on_alarm()."""
    global _due, _alarm
    _due = now + seconds
    if not _alarm or _alarm > _due:
        _alarm = _due
        signal.setitimer(signal.ITIMER_REAL, seconds)


def as_exception(e):
    if isinstance(e, SystemExit):
        return RuntimeError(f"the plugin called exit({e.code!r})")
    return e if isinstance(e, (Exception, Timeout)) else RuntimeError(repr(e))


def on_alarm(signum, frame):
    global _due, _alarm
    _alarm = 0
    now = time.monotonic()
    if me.validating or 0 < _due <= now + 0.001:
        _due = 0
        raise Timeout("it ran out of time")
    if _due:  # of a call before this one
        set_deadline(now, _due - now)


def begin(job, coro):
    job.coro = coro
    if _loop is not None:
        task = _loop.create_task(coro)
        job.coro = task
        task.add_done_callback(lambda t: task_done(job, t))
    else:
        step(job)


def task_done(job, task):
    if task.cancelled():
        fail(job, Timeout("it was cancelled"))
    elif task.exception() is not None:
        fail(job, task.exception())
    else:
        answer(job, task.result())


class _Sleep:
    def __init__(self, s):
        self.s = s

    def __await__(self):
        yield self


def step(job):
    try:
        what = job.coro.send(None)
    except StopIteration as e:
        answer(job, e.value)
        return
    except BaseException as e:
        fail(job, as_exception(e))
        return
    if isinstance(what, _Sleep):
        add_timer(what.s, 0, lambda: job.over or step(job), True)
    elif what is None:
        add_timer(0, 0, lambda: job.over or step(job), True)
    else:
        job.coro.close()
        fail(job, RuntimeError("it awaits something that needs asyncio: import asyncio at the top of the plugin"))


def run_in_thread(job, fn, args, kwargs):
    global _lock
    import _thread
    if _lock is None:
        _lock = _thread.allocate_lock()
    _pipe()  # the loop watches it from its next turn on

    def body():
        _workers.add(_thread.get_ident())
        try:
            value = fn(*args, **(kwargs or {}))
            if type(value) is Coroutine:
                _wake.append(lambda: begin(job, value))
                os.write(_pipe()[1], b"x")
            else:
                answer(job, value)
        except BaseException as e:
            fail(job, as_exception(e))
        finally:
            _workers.discard(_thread.get_ident())
            let_go()
    _thread.start_new_thread(body, ())


_wake = []
_pipe_fds = None


def _pipe():
    global _pipe_fds
    if _pipe_fds is None:
        _pipe_fds = os.pipe()
        os.set_blocking(_pipe_fds[0], False)
        if _loop is not None:
            _loop.add_reader(_pipe_fds[0], wake_up)
    return _pipe_fds


def wake_up():
    try:
        os.read(_pipe_fds[0], 4096)
    except BlockingIOError:
        pass
    while _wake:
        _wake.pop(0)()


# ---- messages -------------------------------------------------------------------------------------

def on_hook(m):
    job = Job(m.get("id") or 0)
    if job.id:
        _tasks[job.id] = job
    number = m.get("handler") or next((i for i, h in enumerate(me.hooks, 1) if h[0] == m.get("point")), 0)
    if not 1 <= number <= len(me.hooks):
        fail(job, LookupError("there is no such handler"))
        return
    point, fn = me.hooks[number - 1]
    row = POINTS[point]
    args = [make_ctx(m.get("ctx") or {}, job)]
    for name, a in zip(row["args"], m.get("args") or ()):
        args.append(MAKERS[name](a) if name in MAKERS else a)
    if row["kind"] == "chain" and not isinstance(args[-1], str) and number not in _dropped:
        job.watched = (row["args"][-1], fn, args[-1], shape_of(args[-1]), number)
    run(job, fn, args, None, m.get("deadline_ms") if job.id else 0)


_dropped = set()  # handlers of which it was said


def shape_of(value):
    """What a change of the value changes: all of it, of a request its last message and the numbers of the others."""
    if isinstance(value, dict) and "messages" in value:
        last = value["messages"][-1:] if isinstance(value["messages"], list) else None
        small = {k: v for k, v in value.items() if k not in ("messages", "tools")}
        return encode([small, last, len(value["messages"] or ()), len(value.get("tools") or ())])
    return encode(value)


def dropped_part(job):
    """A handler that changed its last argument and returned nothing: a mistake, said once."""
    name, fn, value, before, number = job.watched
    try:
        if shape_of(value) == before:
            return ""
    except (TypeError, ValueError):
        pass
    _dropped.add(number)
    code = getattr(fn, "__code__", None)
    place = {"path": code.co_filename, "line": code.co_firstlineno} if code is not None else {}
    return ',"dropped":' + encode({"name": name, **place})


def _tool_value(value):
    if isinstance(value, tuple) and len(value) == 2 and value[0] is None:
        return {"output": "", "success": False, "error": str(value[1])}
    return value


def is_async(fn):
    code = getattr(fn, "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)


def on_offer(m, offer, args, kwargs=None, shape=None):
    job = Job(m["id"])
    _tasks[job.id] = job
    job.shape = shape
    if offer is None:
        fail(job, LookupError(f"there is no {m['type']} '{m.get('name')}'"))
        return
    ctx = make_ctx(m.get("ctx") or {}, job)
    ctx.__dict__["_id"] = job.id
    args = [ctx if a is Job else a for a in args]
    fn = offer["run"]
    if is_async(fn):
        run(job, fn, args, kwargs)
    else:
        run_in_thread(job, fn, args, kwargs)


def find_offer(table, m):
    return table.get(m.get("name")) or me.past.get((m["type"], m.get("name")))


def on_tool(m):
    offer = find_offer(me.tools, m)
    given = m.get("input") or {}
    if offer is not None and offer["spread"]:
        on_offer(m, offer, [Job] if offer["ctx"] else [], given, _tool_value)
    else:
        on_offer(m, offer, [Job, given], None, _tool_value)


def route_of(m):
    """The route that takes a request of a hub that does not name it."""
    path = (m.get("path") or "").split("/")
    for title, offer in me.routes.items():
        method, _, pattern = title.partition(" ")
        parts = pattern.split("/")
        if method == m.get("method") and len(parts) == len(path) and all(p == q or p[:1] == ":" for p, q in zip(parts, path)):
            return offer


def on_route(m):
    on_offer(m, find_offer(me.routes, m) if "name" in m else route_of(m), [Request(m)])


def on_command(m):
    offer = find_offer(me.commands, m)
    args = m.get("args") or []
    on_offer(m, offer, [args, Job] if offer is not None and offer["ctx"] else [args])


def on_prompt(m):
    on_offer(m, find_offer(me.prompts, m), [Job])


def emitter(mid):
    """The function with which a stream says a piece of its answer. It ends a stream whose reader is gone."""
    def emit(event):
        job = _tasks.get(mid)
        if job is None or job.over:
            raise Timeout("the reader of this stream is gone")
        send({"type": "emit", "id": mid, "event": event})
    return emit


def on_provider(m):
    offer = find_offer(me.providers, m)
    emit = emitter(m["id"])
    given = [Job, m.get("request") or {}] + ([emit] if offer is not None and offer["emit"] else [])
    if offer is not None:
        offer = {"run": streaming(offer["run"], emit)}
    on_offer(m, offer, given)


def streaming(fn, emit):
    """A generator says what it yields."""
    flags = getattr(getattr(fn, "__code__", None), "co_flags", 0)
    if flags & 0x200:
        async def drain(*args):
            async for event in fn(*args):
                emit(event)
        return drain
    if flags & 0x20:
        def drain(*args):
            events = fn(*args)
            while True:
                try:
                    emit(next(events))
                except StopIteration as e:
                    return e.value
        return drain
    return fn


def on_mcp_prompt(m):
    offer = find_offer(me.mcp_prompts, m)
    given = m.get("arguments") or {}
    on_offer(m, offer, [given, Job] if offer is not None and offer["ctx"] else [given])


def on_mcp_resource(m):
    offer = find_offer(me.mcp_resources, m)
    given = [m.get("uri"), m.get("params") or {}, Job]
    on_offer(m, offer, given[:offer["n"]] if offer is not None else [])


def match_event(pattern, name):
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def on_event(m):
    name, data = m.get("name") or "", m.get("data")
    if name in POINTS:
        on_hook({"handler": data.get("handler"), "ctx": data.get("ctx"), "args": data.get("args")})
        return
    if name == "plugin_start":
        me.serving = True
        while _early:
            start_timer(_early.pop(0))
        take_state(data.get("state") or {})
        data = {"reason": data.get("reason")}
    tell(name, data)


def tell(name, data):
    first = None
    for pattern, fn in list(me.events):
        if match_event(pattern, name):
            first = tell_one(fn, data, name) or first
    flush_state()
    return first


def tell_one(fn, data, name):
    """Returns what it failed with; None: it did not."""
    try:
        value = call_handler(fn, data, name)
        if type(value) is Coroutine:
            begin(Job(0), value)
    except Exception as e:
        report(e, what=f"event '{name}'")
        return e
    return None


def on_watch(m):
    fn, _ = me.watches.get(m.get("ref")) or (None, None)
    if fn is not None and not me.leaving:
        tell_one(fn, {"path": m.get("path"), "kind": m.get("kind")}, "watch")
        flush_state()


def call_handler(fn, data, name):
    code = getattr(fn, "__code__", None)
    n = code.co_argcount - (1 if getattr(fn, "__self__", None) is not None else 0) if code is not None else 1
    return fn(*(data, name)[:n]) if n < 3 else fn(data, name)


def on_cancel(m):
    job = _tasks.get(m.get("id"))
    if job is None:
        return
    if job.coro is not None and _loop is not None:
        job.coro.cancel()
    else:
        if job.coro is not None:
            try:
                job.coro.close()
            except Exception:
                pass
        fail(job, Timeout("it was cancelled"))


def on_shutdown(m):
    me.leaving = True
    _early.clear()
    _timers[:] = [t for t in _timers if t[4]]  # what sleeps inside an open call continues
    job = Job(m.get("id") or 0)
    e = tell("plugin_shutdown", {"reason": m.get("reason")})
    me.events.clear()
    if not job.id:  # it need not have one: it is answered without
        send({"type": "result", "value": e is None})
    elif e is not None:
        fail(job, e)
    else:
        answer(job, True)


HANDLERS = {"hook": on_hook, "tool": on_tool, "route": on_route, "command": on_command, "prompt": on_prompt,
            "provider": on_provider, "mcp_prompt": on_mcp_prompt, "mcp_resource": on_mcp_resource,
            "event": on_event, "watch": on_watch, "cancel": on_cancel, "shutdown": on_shutdown}


def dispatch(m):
    kind = m.get("type") if isinstance(m, dict) else None
    handler = HANDLERS.get(kind)
    if handler is not None:
        handler(m)
    elif kind == "load":
        on_load(m)
    elif not isinstance(m, dict) or not take_answer(m):
        send({"type": "error", "id": m.get("id") or 0 if isinstance(m, dict) else 0, "message": f"unknown message '{kind}'"})


# ---- the loop -------------------------------------------------------------------------------------

_loop = None     # an asyncio loop, once the plugin has imported asyncio


def add_timer(s, every, fn, sleeps=False):
    """With `sleeps` it continues a coroutine, which happens whether the version serves or not."""
    global _next_id
    _next_id += 1
    item = [max(s, 0), _next_id, every, fn, sleeps]
    if me.serving or sleeps:
        start_timer(item)
    else:
        _early.append(item)
    return item[1]


def start_timer(item):
    item[0] += time.monotonic()
    if _pipe_fds is not None and __import__("_thread").get_ident() != _main:  # the loop waits without knowing of it
        os.write(_pipe_fds[1], b"x")
    if _loop is not None:
        arm_asyncio(item)
    else:
        _timers.append(item)
        _timers.sort(key=lambda t: t[0])


def arm_asyncio(item):
    _timers.append(item)
    _loop.call_at(item[0], fire_due)


def fire_due():
    now = time.monotonic()
    while True:
        due = next((t for t in _timers if t[0] <= now), None)
        if due is None:
            return
        _timers.remove(due)
        if due[2]:
            due[0] += due[2]
            if due[0] <= now:  # times that were missed are left out
                due[0] = now + due[2]
            (arm_asyncio if _loop is not None else _timers.append)(due)
            if _loop is None:
                _timers.sort(key=lambda t: t[0])
        try:
            value = due[3]()
            if type(value) is Coroutine:
                begin(Job(0), value)
        except Exception as e:
            report(e, what="timer")
        flush_state()


def drain():
    while _backlog:
        dispatch(_backlog.pop(0))


def pump():
    """Dispatch what has come."""
    drain()
    for m in read_messages(False):
        dispatch(m)
    drain()


def serve():
    poll = select.poll()
    poll.register(FD, select.POLLIN)
    watched = False
    while "asyncio" not in sys.modules:
        drain()
        wait = None if not _timers else max(0, (_timers[0][0] - time.monotonic()) * 1000 + 0.5)
        if _pipe_fds is not None and not watched:
            watched = True
            poll.register(_pipe_fds[0], select.POLLIN)
        if wait is None and not watched:  # reading waits by itself: one system call less
            for m in read_messages(True):
                dispatch(m)
            continue
        let_go()
        ready = poll.poll(wait)
        for fd, _ in ready:
            if fd == FD:
                for m in read_messages(True):
                    dispatch(m)
            else:
                wake_up()
        fire_due()
    serve_asyncio()


def serve_asyncio():
    global _loop
    import asyncio
    _loop = asyncio.new_event_loop()
    asyncio.set_event_loop(_loop)

    def readable():
        try:
            pump()
        except _Gone:
            _loop.stop()
    _loop.add_reader(FD, readable)
    if _pipe_fds is not None:
        _loop.add_reader(_pipe_fds[0], wake_up)
    for item in list(_timers):
        _loop.call_at(item[0], fire_due)
    _loop.call_soon(pump)
    _loop.run_forever()


# ---- what plugins call ----------------------------------------------------------------------------

def place():
    """File and line of the plugin's code that is registering something."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(me.directory) and not name.startswith("/proc/"):
            return {"file": name, "line": frame.f_lineno}
        frame = frame.f_back
    return {}


class Handle:
    """What was registered. `off()` takes it back."""

    def __init__(self, ref, forget):
        self.ref, self._forget = ref, forget

    def off(self):
        """True the first time. False: it is taken back already, or this version of the plugin was replaced."""
        if self._forget is None or me.leaving:
            return False
        forget, self._forget = self._forget, None
        me.handles[:] = [(fn, h) for fn, h in me.handles if h is not self]
        forget()
        if self.ref:
            send({"type": "unregister", "ref": self.ref})
        return True


_last_ref = 0


def register(kind, forget, fn=None, **fields):
    """Tell the hub of it. `forget` is what taking it back means here; `fn` is what off() may be given."""
    global _last_ref
    if me.leaving:
        raise RuntimeError(f"{kind}: stale handle: this version of '{me.name}' has been replaced")
    _last_ref += 1
    handle = Handle(_last_ref, forget)
    if me.validating:
        row = (kind, fields)
        me.seen.append(row)
        handle._forget = lambda: (me.seen.remove(row), forget())
    me.handles.append((fn, handle))
    send({"type": "register", "kind": kind, "ref": handle.ref, **{k: v for k, v in fields.items() if v is not None},
          **place()})
    return handle


def register_in(table, kind, key, entry, **fields):
    """The same for what is called by name."""
    def forget():
        me.past[kind, key] = table.pop(key)
    table[key] = entry
    return register(kind, forget, entry.get("run"), **fields)


def off(what):
    """Take back what a handle stands for, or all that a function was registered for."""
    if isinstance(what, Handle):
        return what.off()
    return any([handle.off() for fn, handle in list(me.handles) if fn is not None and fn == what])


def decorated(add):
    """A decorator: `add` gets the function, which stays what it was."""
    def decorate(fn):
        add(fn)
        return fn
    return decorate


def nearest(name, names):
    def distance(a, b):
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            last, row[0] = row[0], i
            for j, y in enumerate(b, 1):
                last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
        return row[-1]
    best = min(names, key=lambda n: distance(name, n), default=None)
    return f" (did you mean '{best}'?)" if best is not None and distance(name, best) <= 1 + len(name) // 3 else ""


HOOK_OPTIONS = ("tool", "priority", "timeout_ms", "on_error", "name")


def add_hook(point, fn, options):
    for key in options:
        if key not in HOOK_OPTIONS:
            raise TypeError(f"{point}: unknown option '{key}'{nearest(key, HOOK_OPTIONS)}")
    if options.get("on_error") not in (None, "continue", "block"):
        raise ValueError(f"{point}: on_error must be 'continue' or 'block'")
    if not callable(fn):
        raise TypeError(f"{point}: the handler must be a function, not {type(fn).__name__}")
    me.hooks.append((point, fn))
    return register("hook", lambda: None, fn, point=point, handler=len(me.hooks), **options)


def decorator(point):
    def hook(fn=None, **options):
        decorate = decorated(lambda f: add_hook(point, f, options))
        return decorate if fn is None else decorate(fn)
    hook.__name__ = point
    return hook


TYPES = ("string", "integer", "number", "boolean", "array", "object")
PYTHON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object",
                "str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array",
                "dict": "object"}


def schema_of(short):
    """{"sides": "integer", "label": "string?"} as a JSON Schema."""
    if not isinstance(short, dict):
        raise TypeError("tool: input must be a dict of names and types")
    properties, required = {}, []
    for name in short:
        what = short[name]
        spec = dict(what) if isinstance(what, dict) else {"type": what}
        kind = spec.get("type")
        kind = PYTHON_TYPES.get(kind, kind) if kind.__hash__ else kind
        if not isinstance(kind, str):
            raise TypeError(f"tool: input.{name} has no type")
        optional = kind.endswith("?") or "default" in spec
        spec["type"] = kind.rstrip("?")
        if spec["type"] not in TYPES:
            raise ValueError(f"tool: input.{name}: unknown type '{kind}'{nearest(kind, TYPES)}")
        properties[name] = spec
        if not optional:
            required.append(name)
    return {"type": "object", "properties": {k: properties[k] for k in sorted(properties)},
            "required": sorted(required), "additionalProperties": False}


def parameters(fn):
    code = getattr(fn, "__code__", None)
    return list(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]) if code is not None else ["ctx", "input"]


def schema_by_signature(fn, names):
    defaults = dict(fn.__kwdefaults__ or {})
    positional = names[:fn.__code__.co_argcount]
    for name, value in zip(reversed(positional), reversed(fn.__defaults__ or ())):
        defaults[name] = value
    short = {}
    for name in names:
        if name == "ctx":
            continue
        spec = {"type": PYTHON_TYPES.get(fn.__annotations__.get(name), "string")}
        if name in defaults:
            if defaults[name] is None:
                spec["type"] += "?"
            else:
                spec["default"] = defaults[name]
        short[name] = spec
    return schema_of(short)


def summary(fn):
    lines = (getattr(fn, "__doc__", None) or "").strip().splitlines()
    return lines[0].strip() if lines else ""


def is_name(name):
    return isinstance(name, str) and 0 < len(name) <= 64 and name[0].islower() and name.isascii() and all(
        c.islower() or c.isdigit() or c in "_-" for c in name)


def check_name(kind, name, among):
    if not is_name(name):
        raise ValueError(f"{kind}: {name!r} is no name: it has to be like 'roll-dice'")
    if name in among:
        raise ValueError(f"{kind} '{name}' is registered twice")


def tool(fn=None, *, name=None, description=None, input=None, input_schema=None, permission=None, override=None):
    """A tool for the model. Its function gets (ctx, input), or one argument for each of its parameters."""
    def add(f):
        names = parameters(f)
        title = name or f.__name__
        check_name("tool", title, me.tools)
        if input is not None and input_schema is not None:
            raise TypeError("tool: give 'input' or 'input_schema', not both")
        if permission not in (None, "allow", "ask", "deny"):
            raise ValueError("tool: permission must be 'allow', 'ask' or 'deny'")
        spread = input is None and input_schema is None and names != ["ctx", "input"]
        if input_schema is not None:
            schema = input_schema
        elif spread:
            schema = schema_by_signature(f, names)
        else:
            schema = schema_of(input) if input is not None else {"type": "object"}
        spread = spread or (names and names != ["ctx", "input"] and len(names) != 2 and "ctx" in names and
                            set(names) - {"ctx"} == set(schema.get("properties", ())))
        about = description if description is not None else summary(f)
        entry = {"run": f, "spread": bool(spread), "ctx": "ctx" in names, "description": about,
                 "input_schema": schema, "permission": permission, "override": override}
        register_in(me.tools, "tool", title, entry, name=title, description=about, input_schema=schema,
                    permission=permission, override=override)
    return decorated(add)(fn) if callable(fn) else decorated(add)


def route(method, path, fn=None):
    """Answer requests below /api/plugins/NAME/."""
    def add(f):
        title = f"{str(method).upper()} {path}"
        if title in me.routes:
            raise ValueError(f"route '{title}' is registered twice")
        return register_in(me.routes, "route", title, {"run": f}, method=str(method).upper(), path=path)
    return add(fn) if fn is not None else decorated(add)


def response(status=200, headers=None, body=None):
    return {"status": status, "headers": headers or {}, "body": body}


def command(fn=None, *, name=None, description=None, short=True):
    """A command that people type: afloat PLUGIN:NAME. Its function gets (args) or (args, ctx). With short=False
    it has no other name; else NAME alone is the first plugin's that has it."""
    def add(f):
        title = name or f.__name__.replace("_", "-")
        check_name("command", title, me.commands)
        about = description if description is not None else summary(f)
        register_in(me.commands, "command", title, {"run": f, "ctx": len(parameters(f)) > 1, "description": about},
                    name=title, description=about, short=short)
    return decorated(add)(fn) if callable(fn) else decorated(add)


def prompt(text=None, *, id=None, priority=0):
    """A section of the system prompt: a text, or a function of ctx that gives it."""
    def add(what):
        n = len(me.prompts) + 1
        title = id or (me.name if n == 1 else f"{me.name}-{n}")
        check_name("prompt", title, me.prompts)
        dynamic = callable(what)
        if not dynamic and not isinstance(what, str):
            raise TypeError("prompt: the text must be a str or a function")
        return register_in(me.prompts, "prompt", title,
                           {"run": what, "text": None if dynamic else what, "priority": priority},
                           name=title, priority=priority, text=None if dynamic else what)
    return add(text) if isinstance(text, str) else decorated(add) if text is None else decorated(add)(text)


def provider(fn=None, *, name=None, models=(), description=None):
    """A model provider. Its function gets (ctx, request, emit), or yields what it would emit: texts, or dicts with
    `text`, `reasoning`, `tool_call`, `usage`, `stop_reason` or `error`."""
    def add(f):
        title = name or f.__name__.replace("_", "-")
        check_name("provider", title, me.providers)
        if isinstance(models, str) or not all(isinstance(m, str) for m in models):
            raise TypeError("provider: models must be a list of names")
        about = description if description is not None else summary(f)
        entry = {"run": f, "emit": len(parameters(f)) > 2, "models": list(models), "description": about}
        register_in(me.providers, "provider", title, entry, name=title, models=list(models), description=about)
    return decorated(add)(fn) if callable(fn) else decorated(add)


class _Mcp:
    """What only clients over MCP see."""
    tool = staticmethod(tool)

    @staticmethod
    def prompt(fn=None, *, name=None, title=None, description=None, arguments=None):
        """A prompt. Its function gets (arguments) or (arguments, ctx) and returns a text or a list of messages."""
        def add(f):
            called = name or f.__name__
            if called in me.mcp_prompts:
                raise ValueError(f"mcp.prompt '{called}' is registered twice")
            rows = [{"required": False, **({"name": a} if isinstance(a, str) else a)} for a in arguments or ()]
            about = description if description is not None else summary(f)
            entry = {"run": f, "ctx": len(parameters(f)) > 1, "description": about, "arguments": rows}
            register_in(me.mcp_prompts, "mcp_prompt", called, entry, name=called, title=title, description=about,
                        arguments=rows)
        return decorated(add)(fn) if callable(fn) else decorated(add)

    @staticmethod
    def resource(uri=None, *, uri_template=None, name=None, title=None, description=None, mime=None, values=None):
        """A resource. Its function gets (uri), (uri, params) or (uri, params, ctx) and returns a text."""
        if (uri is None) == (uri_template is None):
            raise TypeError("mcp.resource: give either 'uri' or 'uri_template'")
        where = uri or uri_template

        def add(f):
            if where in me.mcp_resources:
                raise ValueError(f"mcp.resource '{where}' is registered twice")
            about = description if description is not None else summary(f)
            entry = {"run": f, "n": len(parameters(f)), "description": about}
            register_in(me.mcp_resources, "mcp_resource", where, entry, uri=where, template=uri is None,
                        name=name or f.__name__, title=title, description=about, mimeType=mime, values=values)
        return decorated(add)

    @staticmethod
    def updated(uri):
        """What a resource holds is another: clients that subscribed to it are told."""
        call("mcp.updated", uri=uri)


FLAG_TYPES = {"boolean": bool, "string": str, "integer": int, "number": float}


def flag(name, default=None, type=None, description="", short=True):
    """A switch that people set with `afloat feature`; returns a function that gives its value."""
    import builtins
    kind = type or next((k for k, t in FLAG_TYPES.items() if builtins.type(default) is t), "boolean")
    kind = PYTHON_TYPES.get(kind, kind)
    if kind not in FLAG_TYPES:
        raise ValueError(f"flag: type must be boolean, string, integer or number, not '{kind}'")
    check_name("flag", name, me.flags)
    if default is None and kind == "boolean":
        default = False
    handle = register_in(me.flags, "flag", name, {"type": kind, "default": default, "description": description},
                         name=name, flag_type=kind, default=default, description=description, short=short)

    def value():
        if not me.serving or me.validating:
            return default
        chosen = call("flag.get", name=name)
        return default if chosen is None else chosen
    value.off = handle.off
    return value


def preserve_ui(*keys):
    me.keys.extend(keys)
    handles = [register("preserve_ui", lambda key=key: me.keys.remove(key), name=key) for key in keys]
    return Handle(0, lambda: [handle.off() for handle in handles])


LIFE = ("plugin_start", "plugin_shutdown")


def on(name, fn=None, **options):
    """Register for a hook point, an event, or the plugin's own start and shutdown."""
    point = name if name in POINTS else "on_" + str(name)
    if point in POINTS:
        return add_hook(point, fn, options) if fn is not None else decorator(point)(**options)
    known = name in LIFE or name.endswith("*") or "." in name
    if not known:
        names = [p[3:] for p in POINTS] + list(POINTS) + list(LIFE)
        raise ValueError(f"on: there is no hook point or event '{name}'{nearest(name, names)}")

    def add(f):
        row = (name, f)
        me.events.append(row)
        if name not in LIFE:
            return register("event", lambda: me.events.remove(row), f, name=name)
        handle = Handle(0, lambda: me.events.remove(row))
        me.handles.append((f, handle))
        return handle
    return add(fn) if fn is not None else decorated(add)


class _Watch:
    """Files below a directory. The handler gets {"path", "kind": "created" | "changed" | "deleted"} for each file whose
    bytes really changed, while the plugin serves."""

    def directory(self, path, fn=None, *, recursive=True, pattern=None, poll=False):
        """Returns a number for unwatch(); without `fn` it is a decorator."""
        path = os.fspath(path)
        if not path.startswith(("/", "~")):
            raise ValueError(f"watch.directory: '{path}' is not an absolute path")

        def add(f):
            if not callable(f):
                raise TypeError("watch.directory: the handler must be a function")
            handle = register("watch", lambda: me.watches.pop(handle.ref), f, path=path, recursive=recursive,
                              pattern=pattern, poll=poll)
            me.watches[handle.ref] = (f, handle)
            return handle.ref
        return add(fn) if fn is not None else decorated(add)

    def unwatch(self, number):
        _, handle = me.watches.get(number) or (None, None)
        return handle is not None and handle.off()


class _Log:
    def __call__(self, text):
        log("info", text)

    def debug(self, text, *args):
        log("debug", text % args if args else text)

    def info(self, text, *args):
        log("info", text % args if args else text)

    def warn(self, text, *args):
        log("warn", text % args if args else text)

    warning = warn

    def error(self, text, *args):
        log("error", text % args if args else text)

    exception = error


class _State:
    """Values that survive a reload of the plugin, as long as the hub runs."""

    def __init__(self):
        self._values = {}

    def get(self, key, default=None):
        if key not in self._values and default is not None:
            self._values[key] = default
        return self._values.get(key, default)

    def set(self, key, value):
        encode(value)
        self._values[key] = value

    def clear(self, key):
        self._values.pop(key, None)

    def keys(self):
        return sorted(self._values)

    __getitem__ = lambda self, key: self._values[key]
    __setitem__ = set
    __delitem__ = lambda self, key: self._values.pop(key) and None
    __contains__ = lambda self, key: key in self._values


state = _State()


def take_state(values):
    """Take what the version before us left. What this one has set, and the hub does not know yet, stays."""
    for key, value in values.items():
        if _state_seen.get(key) == encode(value):
            continue
        have = state._values.get(key)
        if isinstance(have, dict) and isinstance(value, dict):
            have.clear()
            have.update(value)
        elif isinstance(have, list) and isinstance(value, list):
            have[:] = value
        else:
            state._values[key] = value
        _state_seen[key] = encode(value)


def flush_state():
    if not state._values and not _state_seen:
        return
    for key in list(state._values):
        try:
            text = encode(state._values[key])
        except (TypeError, ValueError) as e:
            if _state_seen.get(key) != "":
                _state_seen[key] = ""
                log("warn", f"state: '{key}' is not kept for the next version: {e}")
            continue
        if _state_seen.get(key) != text:
            _state_seen[key] = text
            send({"type": "state", "key": key, "value": state._values[key]})
    for key in [k for k in _state_seen if k not in state._values]:
        del _state_seen[key]
        send({"type": "state", "key": key, "value": None})


class _Store:
    """Durable JSON values of this plugin."""

    def get(self, key, default=None):
        value = call("store.get", key=key)
        return default if value is None else value

    def set(self, key, value):
        call("store.set", key=key, value=value)

    def remove(self, key):
        call("store.remove", key=key)

    def keys(self):
        return call("store.keys")


class _Events:
    def on(self, name, fn=None):
        return on(name, fn)

    def off(self, handle):
        return off(handle)

    def emit(self, name, data=None):
        call("event.emit", type=name, data=data)


class _Timer:
    """Timers run once the plugin serves."""

    def after(self, s, fn):
        return add_timer(s, 0, fn)

    def every(self, s, fn):
        if s < 0.01:
            raise ValueError("timer.every: at least 0.01 s")
        return add_timer(s, s, fn)

    def cancel(self, number):
        for among in (_timers, _early):
            for item in among:
                if item[1] == number:
                    among.remove(item)
                    return True
        return False

    def sleep(self, s):
        if _loop is not None:
            import asyncio
            return asyncio.sleep(s)
        return _Sleep(s)


class _Config:
    def get(self, key, default=None):
        value = call("config.get", key=key)
        return default if value is None else value

    def all(self):
        return call("config.get")


class _Secrets:
    def get(self, name):
        return call("secret.get", name=name)


class _Noun:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, verb):
        return lambda **params: call(f"{self._name}.{verb.rstrip('_')}", **params)

    def __call__(self, **params):
        return call(self._name, **params)


class _Hub:
    """hub.session.list(limit=3): the operations that plugins may use."""

    def __getattr__(self, noun):
        return _Noun(noun)

    def call(self, op, **params):
        return call(op, **params)


API = {"PluginContext": PluginContext, "ToolCall": ToolCall, "ToolResult": ToolResult, "tool": tool, "route": route,
       "response": response, "command": command, "prompt": prompt, "flag": flag, "preserve_ui": preserve_ui, "on": on, "off": off,
       "provider": provider, "mcp": _Mcp(),
       "log": _Log(), "state": state, "store": _Store(), "events": _Events(), "timer": _Timer(), "watch": _Watch(),
       "config": _Config(), "secrets": _Secrets(), "hub": _Hub(), "HubError": HubError}
for _point in POINTS:
    API[_point] = decorator(_point)


# ---- print and logging ----------------------------------------------------------------------------

class _Said:
    """stdout and stderr of the plugin: lines of its log."""
    encoding, errors = "utf-8", "replace"
    closed = False

    def __init__(self, level):
        self.level, self.rest = level, ""

    def write(self, text):
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            if line:
                log(self.level, line)
        if len(self.rest) > 65536:
            log(self.level, self.rest)
            self.rest = ""
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False

    def writable(self):
        return True


class _LoggingFinder:
    """When the plugin imports logging, what it logs goes to its log here."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "logging":
            return None
        from _frozen_importlib_external import PathFinder
        sys.meta_path.remove(_LoggingFinder)
        spec = PathFinder.find_spec(name, path, target)
        spec.loader = _LoggingFinder(spec.loader)
        return spec

    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        self.real.exec_module(module)
        module.basicConfig(handlers=[_handler(module)], level=module.INFO)


def _handler(logging):
    levels = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warn"}

    class Handler(logging.Handler):
        def emit(self, record):
            try:
                log(levels.get(record.levelno, "error"), self.format(record))
            except Exception:
                pass
    handler = Handler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


# ---- loading --------------------------------------------------------------------------------------

class _Finder:
    """Modules of the plugin's own directory, from the memory that was hashed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        rel = name.replace(".", "/")
        for file, package in ((rel + ".py", False), (rel + "/__init__.py", True)):
            if file in me.files and file != me.server:
                from importlib.machinery import ModuleSpec
                spec = ModuleSpec(name, _Loader(file), origin=full(file), is_package=package)
                spec.has_location = True
                return spec
        return None


class _Loader:
    def __init__(self, file):
        self.file = file

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__dict__.update({k: v for k, v in API.items() if k not in module.__dict__})
        exec(compile(me.files[self.file], full(self.file), "exec", dont_inherit=True), module.__dict__)

    def get_source(self, name):
        return me.files[self.file]


def full(file):
    return me.path if me.single else f"{me.path}/{file}"


def prepare(m):
    me.name, me.path = m["name"], m["path"]
    me.server = m.get("server") or os.path.basename(me.path)
    me.single, me.files = m.get("single", True), m.get("files") or {}
    me.options = m.get("options") or {}
    me.directory = me.path if me.single else me.path + "/"
    state._values.update(m.get("state") or {})
    for key, value in state._values.items():
        _state_seen[key] = encode(value)
    sys.meta_path.insert(0, _LoggingFinder)
    if not me.single:
        sys.meta_path.insert(0, _Finder)
    version = "%d.%d" % sys.version_info[:2]
    for extra in (f"{sys.prefix}/lib/python{version}/site-packages", f"/usr/local/lib/python{version}/dist-packages",
                  "/usr/lib/python3/dist-packages"):
        if os.path.isdir(extra):
            sys.path.append(extra)


def load_file():
    """Run the server file; returns its module's names."""
    module = type(sys)("__plugin__")
    module.__file__ = full(me.server)
    module.__dict__.update(API)
    module.__dict__["options"] = me.options
    sys.modules["__plugin__"] = module
    code = compile(me.files[me.server], module.__file__, "exec", dont_inherit=True)
    exec(code, module.__dict__)
    meta = module.__dict__.get("__plugin__")
    meta = dict(meta) if isinstance(meta, dict) else {}
    if "api" in meta:
        meta["api"] = str(meta["api"])
        if meta["api"].split(".")[0] != "1":
            raise ValueError(f"Incompatible plugin API version: {meta['api']} (expected 1.0)")
    doc = summary(module)
    if doc and "description" not in meta:
        meta["description"] = doc
    me.metadata = meta
    return module.__dict__


def on_load(m):
    if me.loaded:
        send({"type": "error", "message": "it was loaded already"})
        return
    prepare(m)
    signal.signal(signal.SIGALRM, on_alarm)
    try:
        if "files" not in m:  # the hub sends what it hashed; without it the file is read
            with open(me.path, encoding="utf-8") as file:
                me.files = {me.server: file.read()}
        load_file()
    except BaseException as e:
        if isinstance(e, _Gone):
            raise
        trace = trace_of(e)
        if trace and not isinstance(e, SyntaxError):
            log("error", f"{type(e).__name__}: {e}\n{trace}")
        told = fault_of(e if isinstance(e, Exception) else RuntimeError(f"the plugin called exit: {e!r}"))
        if isinstance(e, MemoryError):
            told["code"] = "MEMORY_LIMIT"
        if str(e).startswith("Incompatible plugin API version"):
            told["message"] = str(e)
            told["code"] = "API_INCOMPATIBLE"
        send({"type": "failed", **told})
        return
    me.loaded = True
    me.files = {k: v for k, v in me.files.items() if k != me.server and not me.single}
    flush_state()
    send({"type": "loaded", "metadata": {"api": "1.0", "name": me.name, **me.metadata}})
    import gc
    gc.collect()
    gc.freeze()


def main():
    global _main
    import _thread
    _main = _thread.get_ident()
    os.set_inheritable(FD, False)
    sys.stdout, sys.stderr = _Said("info"), _Said("warn")
    sys.argv = ["plugin"]
    try:
        serve()
    except (_Gone, BrokenPipeError, ConnectionResetError):
        pass
    os._exit(0)


# ---- validation -----------------------------------------------------------------------------------

def finish(value):
    """Run a coroutine of a test to its end."""
    if type(value) is not Coroutine:
        return value
    if "asyncio" in sys.modules:
        import asyncio
        return asyncio.run(value)
    while True:
        try:
            value.send(None)
        except StopIteration as e:
            return e.value


class _Test:
    """What a test gets as `t`."""

    def ok(self, value, message="not true"):
        if not value:
            raise AssertionError(message)

    def equal(self, got, want, message=None):
        if got != want:
            raise AssertionError(f"{message + ': ' if message else ''}{got!r}, wanted {want!r}")

    def context(self, **fields):
        return PluginContext(**fields)

    def tool(self, name, input=None, ctx=None):
        offer = me.tools.get(name)
        if offer is None:
            raise AssertionError(f"the plugin has no tool '{name}'")
        ctx = ctx or PluginContext()
        if offer["spread"]:
            return finish(offer["run"](*([ctx] if offer["ctx"] else []), **(input or {})))
        return finish(offer["run"](ctx, input or {}))

    def command(self, name, *args):
        offer = me.commands.get(name)
        if offer is None:
            raise AssertionError(f"the plugin has no command '{name}'")
        return finish(offer["run"](*([list(args), PluginContext()] if offer["ctx"] else [list(args)])))

    def route(self, method, path, **given):
        for title, offer in me.routes.items():
            have, pattern = title.split(" ", 1)
            params = match_path(pattern, path) if have == method else None
            if params is not None:
                request = Request({"method": method, "path": path, "params": params, "query": given.get("query", {}),
                                   "headers": given.get("headers", {}), "body": given.get("body", "")})
                return finish(offer["run"](request))
        raise AssertionError(f"the plugin has no route '{method} {path}'")

    def provider(self, name, request=None, ctx=None):
        """What a stream says, as a list of events."""
        offer = me.providers.get(name)
        if offer is None:
            raise AssertionError(f"the plugin has no provider '{name}'")
        said = []
        given = [ctx or PluginContext(), request or {"messages": []}] + ([said.append] if offer["emit"] else [])
        value = finish(streaming(offer["run"], said.append)(*given))
        return said + ([value] if value is not None else [])

    def mcp_prompt(self, name, arguments=None):
        offer = me.mcp_prompts.get(name)
        if offer is None:
            raise AssertionError(f"the plugin has no mcp.prompt '{name}'")
        return finish(offer["run"](*([arguments or {}, PluginContext()][:1 + offer["ctx"]])))

    def mcp_resource(self, uri, params=None):
        offer = me.mcp_resources.get(uri)
        if offer is None:
            raise AssertionError(f"the plugin has no mcp.resource '{uri}'")
        return finish(offer["run"](*[uri, params or {}, PluginContext()][:offer["n"]]))

    def hook(self, point, *args):
        point = point if point in POINTS else "on_" + point
        found = [me.hooks[f["handler"] - 1][1] for kind, f in me.seen if kind == "hook" and f["point"] == point]
        if not found:
            raise AssertionError(f"the plugin has no hook '{point}'")
        result = None
        for fn in found:
            value = finish(fn(*args))
            if value is not None:
                result = value
                if POINTS[point]["kind"] == "chain":
                    args = (*args[:-1], value)
        return result


def match_path(pattern, path):
    want, got, params = pattern.split("/"), path.split("/"), {}
    for i, part in enumerate(want):
        if i >= len(got):
            return None
        if part == "*":
            return {**params, "*": "/".join(got[i:])}
        if not part.startswith(":") and part != got[i]:
            return None
        if part.startswith(":"):
            params[part[1:]] = got[i]
    return params if len(want) == len(got) else None


def run_tests(names):
    tests = [(k, v) for k, v in names.items() if k.startswith("test_") and callable(v)]
    results = []
    for name, fn in tests:
        try:
            finish(fn(*([_Test()] if parameters(fn) else [])))
            results.append({"name": name, "ok": True})
        except BaseException as e:
            told = fault_of(e)
            results.append({"name": name, "ok": False,
                            "error": f"{told['path'].rsplit('/', 1)[-1]}:{told['line']}: {told['message']}"})
    return results


def test_names(names):
    """The names that may hold tests: the plugin's own, and those of test.py beside it."""
    own = me.server.rsplit("/", 1)[0] + "/" if "/" in me.server else ""
    for file in (own + "test.py", "test.py"):
        if file in me.files and file != me.server:
            tests = {**API, "options": me.options, "plugin": names}
            exec(compile(me.files[file], full(file), "exec", dont_inherit=True), tests)
            return tests
    return names


def account(request, names):
    handlers = [{"point": f["point"], "tool": f.get("tool"), "priority": f.get("priority") or 0}
                for kind, f in me.seen if kind == "hook"]
    points = [p for p in POINTS if any(p == h["point"] for h in handlers)]
    value = {
        "name": me.name, "hooks": points, "metadata": {"api": "1.0", "name": me.name, **me.metadata},
        "tools": list(me.tools), "routes": list(me.routes), "commands": list(me.commands),
        "contributions": {
            "handlers": handlers,
            "tools": [{"name": n, **{k: t[k] for k in ("description", "input_schema", "permission", "override")
                                     if t[k] is not None}} for n, t in me.tools.items()],
            "routes": list(me.routes),
            "commands": [{"name": n, "description": c["description"]} for n, c in me.commands.items()],
            "prompts": [{"id": n, "priority": p["priority"], **({"text": p["text"]} if p["text"] else {})}
                        for n, p in me.prompts.items()],
            "flags": [{"name": n, **f} for n, f in me.flags.items()],
            "providers": [{"name": n, "models": p["models"], "description": p["description"]}
                          for n, p in me.providers.items()],
            "mcp_prompts": [{"name": n, "description": p["description"]} for n, p in me.mcp_prompts.items()],
            "mcp_resources": [{"name": n, "description": r["description"]} for n, r in me.mcp_resources.items()],
            "preserve_ui": me.keys,
            "events": [name for name, _ in me.events],
            "watches": [f["path"] for kind, f in me.seen if kind == "watch"],
        },
    }
    if request.get("test"):
        value["tests"] = run_tests(test_names(names))
    return value


def validate():
    global _main
    import _thread
    _main = _thread.get_ident()
    out = os.dup(1)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    data = b""
    while True:
        more = os.read(0, READ)
        if not more:
            break
        data += more
    request = decode(data.decode("utf-8"))
    me.validating = True
    sys.stdout = sys.stderr = _Said("info")
    prepare(request)
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, max(request.get("load_ms", 500), 5000) / 1000 +
                     (10 if request.get("test") else 0))
    try:
        names = load_file()
        result = {"ok": True, "value": account(request, names)}
    except BaseException as e:
        told = fault_of(e if isinstance(e, Exception) else RuntimeError(f"the plugin called exit: {e!r}"))
        if str(e).startswith("Incompatible plugin API version"):
            told["message"] = str(e)
        result = {"ok": False, **told}
    signal.setitimer(signal.ITIMER_REAL, 0)
    view = memoryview(encode(result).encode("ascii"))
    while view:
        view = view[os.write(out, view):]
    os._exit(0)


if "--validate" in sys.argv:
    validate()
else:
    main()
