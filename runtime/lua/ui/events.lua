-- What happens when something happened. Keys are event types as in `afloat events`; "*" is every event.

-- A question takes the focus, unless somebody is typing a message; who looks elsewhere is told.
local function ask(state, event)
  afloat.notify("waiting for your answer")
  if state.session and event.session == state.session.id and (state.tui.input.message or "") == "" then
    state.tui.focus = "ask"
  end
end

return {
  ["turn.completed"] = function() afloat.notify("the turn has ended") end,
  ["turn.failed"] = function() afloat.notify("the turn failed") end,
  ["permission.requested"] = ask,
  ["question.asked"] = ask,
  ["permission.decided"] = function(state)
    if state.tui.focus == "ask" then state.tui.focus = "message" end
  end,
  ["question.answered"] = function(state)
    if state.tui.focus == "ask" then state.tui.focus = "message" end
  end,
  ["generation.committed"] = function(state, event)
    local n = #(event.changed or {}) + #(event.added or {}) + #(event.removed or {})
    local bad = #(event.failed or {})
    local text = "generation " .. tostring(event.generation) .. ": " .. n .. " changed"
    if bad > 0 then text = text .. ", " .. bad .. " failed: " .. table.concat(event.failed, " ") end
    afloat.note(text, bad > 0 and "bad" or "good")
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
  ["bot.run.ended"] = function(state, event)
    afloat.note("run of " .. tostring(event.bot) .. " ended: " .. tostring(event.end_reason or event.state or ""))
  end,
}
