-- mocker: answers tool calls in place of the tools, for tests and demonstrations.
--
--     [[plugins]]
--     name = "mocker"
--     [plugins.options.answers]
--     "shell: date" = "Mon Jan  1 00:00:00 UTC 2024"
--     read_file = "always this text"
--
-- `on_resolve_tool` is a question to all: the first that answers wins, and the tool itself does not run.

return function(options)
  local answers = options.answers or {}
  local function key(call)
    return call.tool_name .. ": " .. (call.input.cmd or call.input.path or call.input.url or "")
  end
  return {
    hooks = {
      on_resolve_tool = function(ctx, call)
        local answer = answers[key(call)] or answers[call.tool_name]
        if answer then return { output = answer, success = true } end
      end,
    },
  }
end
