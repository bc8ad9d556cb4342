-- github: issues and pull requests as tools for models.
--
-- Reading needs no token for public repositories; writing and private ones do: `afloat secret set GITHUB_TOKEN`. The
-- token goes into one header of requests to `api` and nowhere else. Tools that write ask the user first
-- (permission = "ask"), whatever the session's permission mode is.

local text = require "text"

local MOST = 50 -- items of a list

return function(options)
  local api = (options.api or "https://api.github.com"):gsub("/+$", "")

  -- Ask GitHub. The decoded answer, or nil and a message.
  local function ask(method, path, body, accept)
    local token = secrets.get("GITHUB_TOKEN")
    local answer, why = http.request {
      method = method, url = api .. path, body = body and json.encode(body), timeout_s = 20,
      headers = {
        ["Accept"] = accept or "application/vnd.github+json",
        ["User-Agent"] = "afloat-github-plugin",
        ["X-GitHub-Api-Version"] = "2022-11-28",
        ["Content-Type"] = body and "application/json" or nil,
        ["Authorization"] = token and "Bearer " .. token or nil,
      },
    }
    if not answer then return nil, "cannot reach GitHub: " .. why end
    if answer.status >= 300 then
      local said = json.decode(answer.body)
      local message = type(said) == "table" and said.message or "no reason given"
      return nil, text.failure(answer.status, message, token ~= nil)
    end
    if accept then return answer.body end
    return json.decode(answer.body)
  end

  -- "/repos/OWNER/NAME": named by the call, by the options, or by the remote of the session's directory.
  local function repository(ctx, named)
    local name = named or options.repository
    if not name and ctx.working_dir then
      local remote = exec { cmd = "git", args = { "-C", ctx.working_dir, "remote", "get-url", "origin" }, timeout_s = 5 }
      name = remote and remote.code == 0 and text.repository(remote.stdout:gsub("%s+$", "")) or nil
    end
    if not name or not name:match("^[%w._-]+/[%w._-]+$") then
      return nil, "which repository? give `repository` as OWNER/NAME"
    end
    return "/repos/" .. name
  end

  local REPO = { type = "string?", description = "OWNER/NAME; default: the repository of the working directory" }
  local STATE = { type = "string?", enum = { "open", "closed", "all" }, description = "default open" }

  -- A tool whose `run` gets the path of its repository first.
  local function declare(name, description, input, run, writes)
    input.repository = REPO
    return {
      name = name, description = description, input = input, permission = writes and "ask" or nil,
      run = function(ctx, given)
        local repo, why = repository(ctx, given.repository)
        if not repo then return nil, why end
        return run(repo, given)
      end,
    }
  end

  local function list(kind)
    return function(repo, given)
      local found, why = ask("GET", ("%s/%s?state=%s&per_page=%d"):format(repo, kind, given.state or "open", MOST))
      if not found then return nil, why end
      local kept = {}
      for _, of in ipairs(found) do -- GitHub lists pull requests among the issues, too
        if kind == "pulls" or not of.pull_request then kept[#kept + 1] = of end
      end
      return text.lines(kept)
    end
  end

  local function show(repo, given)
    local issue, why = ask("GET", ("%s/issues/%d"):format(repo, given.number))
    if not issue then return nil, why end
    local comments, failed = ask("GET", ("%s/issues/%d/comments?per_page=%d"):format(repo, given.number, MOST))
    if not comments then return nil, failed end
    return text.whole(issue, comments)
  end

  local function made(answer, why)
    if not answer then return nil, why end
    return answer.html_url
  end

  local tools = {
    declare("github_issues", "list issues of a GitHub repository", { state = STATE }, list("issues")),
    declare("github_issue", "read one issue or pull request with its comments", { number = "integer" }, show),
    declare("github_issue_create", "open an issue", { title = "string", body = "string?" }, function(repo, given)
      return made(ask("POST", repo .. "/issues", { title = given.title, body = given.body }))
    end, true),
    declare("github_comment", "comment on an issue or a pull request", { number = "integer", body = "string" },
      function(repo, given)
        return made(ask("POST", ("%s/issues/%d/comments"):format(repo, given.number), { body = given.body }))
      end, true),
    declare("github_pulls", "list pull requests of a GitHub repository", { state = STATE }, list("pulls")),
    declare("github_pull_diff", "read the changes of a pull request as a diff", { number = "integer" }, function(repo, given)
      return ask("GET", ("%s/pulls/%d"):format(repo, given.number), nil, "application/vnd.github.diff")
    end),
    declare("github_pull_create", "open a pull request from a branch that was pushed",
      { title = "string", body = "string?", head = "string", base = "string" }, function(repo, given)
        return made(ask("POST", repo .. "/pulls",
          { title = given.title, body = given.body, head = given.head, base = given.base }))
      end, true),
  }

  return {
    tools = tools,
    commands = {
      { name = "check", description = "can it reach GitHub? github:check [OWNER/NAME]", run = function(args)
        local about, why = ask("GET", args[1] and "/repos/" .. args[1] or "/rate_limit")
        if not about then return nil, why end
        local token = secrets.get("GITHUB_TOKEN") and "with your token" or "without a token"
        return ("GitHub answers %s%s"):format(token, args[1] and "; " .. about.full_name .. " is readable" or "")
      end },
    },
  }
end
