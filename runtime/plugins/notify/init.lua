-- notify: tells you when a turn ends or waits for you, also when no chat is open.
--
-- The option `command` is a list of words; {title} and {text} stand for what happened. The chat rings the
-- terminal's bell by itself; this is for the desktop, a phone, a lamp.

return function(options)
  local command = options.command or { "notify-send", "{title}", "{text}" }

  local function tell(title, text)
    local words = {}
    for i, word in ipairs(command) do
      words[i] = (word:gsub("{(%a+)}", { title = title, text = text }))
    end
    local done, why = exec { cmd = table.remove(words, 1), args = words, timeout_s = 10 }
    if done and done.code == 0 then return "notified" end
    why = why or done.stderr
    log.warn("cannot notify: " .. why)
    return nil, "cannot notify: " .. why
  end

  return {
    commands = {
      { name = "try", description = "notify once, to see whether it works",
        run = function() return tell("Afloat", "it works") end },
    },
    on = {
      ["turn.completed"] = function(ev) tell("Afloat", "the turn is done") end,
      ["turn.failed"] = function(ev) tell("Afloat", "the turn failed") end,
      ["permission.requested"] = function(ev) tell("Afloat", "a call waits for your permission") end,
      ["question.asked"] = function(ev) tell("Afloat", "the model asks you something") end,
    },
  }
end
