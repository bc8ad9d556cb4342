-- What GitHub answers, as short texts for a model; nothing here talks to anybody.

local M = {}

-- OWNER/NAME from the address of a git remote; nil when it is none of GitHub's form.
function M.repository(url)
  local path = url:match("^git@[^:]+:(.+)$") or url:match("^%a+://[^/]+/(.+)$")
  return path and path:gsub("%.git$", ""):match("^[%w._-]+/[%w._-]+$")
end

-- A value, or nil where GitHub has null.
local function known(value)
  if value ~= json.null then return value end
end

local function author(of)
  local user = known(of.user)
  return user and user.login or "somebody"
end

function M.line(of)
  local labels = {}
  for i, label in ipairs(known(of.labels) or {}) do labels[i] = label.name end
  local tail = #labels > 0 and " [" .. table.concat(labels, ", ") .. "]" or ""
  return ("#%d %s (%s, %s)%s"):format(of.number, of.title, of.state, author(of), tail)
end

function M.lines(list)
  local out = {}
  for _, of in ipairs(list) do out[#out + 1] = M.line(of) end
  return #out > 0 and table.concat(out, "\n") or "none"
end

function M.whole(of, comments)
  local out = { M.line(of), known(of.html_url) or "", "", known(of.body) or "(no text)" }
  for _, comment in ipairs(comments or {}) do
    out[#out + 1] = ("\n--- %s, %s\n%s"):format(author(comment), comment.created_at or "", known(comment.body) or "")
  end
  return table.concat(out, "\n")
end

-- What a failed request says, with what to do about it.
function M.failure(status, message, has_token)
  local why = ("GitHub answered %d: %s"):format(status, message)
  if status == 401 then return why .. "; store a valid token with 'afloat secret set GITHUB_TOKEN'" end
  if status == 403 or status == 404 then
    return why .. (has_token and "; the token may lack access to this repository"
                   or "; a private repository needs a token: 'afloat secret set GITHUB_TOKEN'")
  end
  return why
end

return M
