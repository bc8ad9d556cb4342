-- notify: tells you when a turn ends or waits for you, also when no chat is open.
--
-- First it runs the option `command`, a list of words in which {title} and {text} stand for what happened: by default
-- notify-send, for the desktop; it may as well be a phone or a lamp. Where that fails, as over ssh, it rings your
-- terminals: a bell, and OSC 9, which many terminals show as a notification. These are the option `terminals`, by default
-- those that you are logged in at and those that show a tmux. tmux itself need not let anything through.

local RING = [[
text=$1; shift
[ $# -gt 0 ] || set -- $({ who | awk -v me="$(id -un)" '$1 == me { print "/dev/" $2 }'
                           tmux list-clients -F '#{client_tty}'; } 2> /dev/null | sort -u)
for tty in "$@"; do printf '\a\033]9;%s\033\\' "$text" > "$tty" && rung=1; done
[ -n "$rung" ]
]]

return function(options)
  local command = options.command or { "notify-send", "{title}", "{text}" }

  -- A program of its own writes to terminals: one that is stopped (Ctrl-S) holds up neither hub nor plugin.
  local function ring(text)
    local done = exec { cmd = "sh", args = { "-c", RING, "ring", text, table.unpack(options.terminals or {}) }, timeout_s = 10 }
    return done and done.code == 0
  end

  local function tell(title, text)
    local words = {}
    for i, word in ipairs(command) do
      words[i] = (word:gsub("{(%a+)}", { title = title, text = text }))
    end
    local done, why = exec { cmd = table.remove(words, 1), args = words, timeout_s = 10 }
    if done and done.code == 0 then return "notified" end
    if ring(title .. ": " .. text) then return "rang your terminals" end
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
