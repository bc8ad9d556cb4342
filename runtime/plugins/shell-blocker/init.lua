-- shell-blocker: commands that no model shall run, whatever the permission mode says.
--
-- A veto: `on_permission` may only make a call stricter, and a hook that throws denies. This is a belt beside the
-- braces: rules in [[permission]] parse command lines, this compares plain text.

return function(options)
  local words = options.blocked or { "rm -rf /", "mkfs", "shutdown", "reboot", "git push --force", ":(){" }
  return {
    hooks = {
      on_permission = { tool = "shell", run = function(ctx, call)
        local line = call.input.cmd or ""
        for _, word in ipairs(words) do
          if line:find(word, 1, true) then return "deny", ("'%s' is blocked by shell-blocker"):format(word) end
        end
        return "allow"
      end },
    },
    prompt = "Some commands are blocked here: " .. table.concat(words, ", ") .. ".",
  }
end
