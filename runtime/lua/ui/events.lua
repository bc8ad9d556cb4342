-- What happens when something happened. Keys are event types as in `afloat events`; "*" is every event.

-- What happens in a session that is too old to be among the newest: its row is asked for by itself.
local function renew(state, event)
  for _, s in ipairs(state.sessions) do
    if s.id == event.session then return end
  end
  local row = #state.sessions >= 100 and event.session and afloat.call("session.show", { id = event.session })
  if row and not row.parent then afloat.keep_session(state, row) end
end

-- A question takes the focus, unless the user is typing a message. In another window the user gets a notification.
local function ask(state, event)
  afloat.notify("waiting for your answer")
  if state.session and event.session == state.session.id and (state.tui.input.message or "") == "" then
    state.tui.focus = "ask"
  end
  renew(state, event)
end

local function decided(state, event)
  if state.tui.focus == "ask" then state.tui.focus = "message" end
  renew(state, event)
end

return {
  ["turn.started"] = renew,
  ["session.ended"] = renew,
  ["turn.interrupted"] = renew,
  ["turn.completed"] = function(state, event)
    afloat.notify("the turn has ended")
    renew(state, event)
  end,
  ["turn.failed"] = function(state, event)
    afloat.notify("the turn failed")
    renew(state, event)
  end,
  ["permission.requested"] = ask,
  ["question.asked"] = ask,
  ["permission.decided"] = decided,
  ["question.answered"] = decided,
  ["generation.committed"] = function(state, event)
    local n = #(event.changed or {}) + #(event.added or {}) + #(event.removed or {})
    afloat.note("generation " .. tostring(event.generation) .. ": " .. n .. " changed", "good")
  end,
  -- of the settings, or of a plugin outside of sessions; a session shows its own
  ["plugin.error"] = function(_, event)
    if event.session then return end
    local at = event.path and event.line and event.path:match("[^/]*$") .. ":" .. event.line .. ": " or ""
    afloat.note((event.plugin and "plugin " .. event.plugin .. ": " or "") .. at .. event.message, "bad")
  end,
  ["pty.bell"] = function(state, event)
    local name = event.pty.name or event.pty.cmd or "a terminal"
    if event.pty.id ~= state.tui.pty then afloat.note(name .. " rings", "warn") end
    afloat.notify(name .. " rings")
  end,
  ["pty.closed"] = function(state, event) afloat.run("shell.ended", state, event.pty) end,
  ["pty.notified"] = function(state, event)
    local n = event.notification or {}
    afloat.note((n.title or "") .. " " .. (n.body or ""))
    afloat.notify(n.body or n.title or "a terminal wants attention")
  end,
  -- a run that is followed: show its next session
  ["bot.run.iteration"] = function(state, event)
    local s = state.session
    if s and s.run_id == event.run_id and s.id ~= event.session_id then
      if state.tui.selected.sessions == s.id then state.tui.selected.sessions = event.session_id end
      afloat.open(event.session_id)
    end
  end,
  ["bot.run.ended"] = function(state, event)
    afloat.note("run of " .. tostring(event.bot) .. " ended: " .. tostring(event.end_reason or event.state or ""))
  end,
}
