-- Your own entry point. It runs inside the hub with your permissions and is loaded again whenever you save it; a
-- save that does not load changes nothing, and `afloat reload` says why.
--
-- The modules are in docs/guide/lua.md, the hook points in docs/reference/hooks.md.

-- A command: `afloat mine:hi Ada`.
plugins {
  {
    name = "mine",
    commands = {
      { name = "hi", description = "greet someone", run = function(args) return "Hi, " .. (args[1] or "you") .. "!" end },
    },
  },
}

-- An event: `afloat events emit user.hello '{"name": "Ada"}'` is answered by one of our own.
on("user.hello", function(event)
  events.emit("user.greeting", { text = "hello " .. tostring(event.name) })
end)

-- The end of every turn, in the hub's log (`afloat logs`).
on("turn.completed", function(event)
  log.info("turn of session " .. event.session .. " took " .. event.duration_ms .. " ms")
end)

-- Something that survives restarts: `store` waits for the disk, so it is used in handlers. `state` is for what may
-- go with the hub.
on("plugin_start", function()
  store.set("loaded", (store.get("loaded") or 0) + 1)
end)
