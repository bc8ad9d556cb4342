-- @NAME@: a session type. `afloat chat --type @NAME@` begins a conversation like this; a save is live for the next one.
-- All keys are in docs/guide/terminals.md.

return function(at) -- at.cwd is where you are, at.name what you called it
  return {
    kind = "chat",
    description = "review the last commit",
    title = "review of " .. (at.cwd:match("([^/]+)/*$") or at.cwd),
    prompt = "Read the last commit and the files that it changes. Name defects that you can confirm, the worst first, "
      .. "each with file and line. Change nothing.",
    env = { REVIEW = "1" }, -- for the tools of this session
    -- model = "...", provider = "...", plugins = { "logger" }, bot = "reviewer",
  }
end

-- A program in a terminal instead, `afloat pty new --type @NAME@`:
--
--     return { kind = "pty", description = "another agent in a worktree of its own", worktree = true,
--              cmd = "claude", args = { "--permission-mode", "plan", "{prompt}" }, prompt = "Review the last commit." }
