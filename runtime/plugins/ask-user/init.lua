-- ask-user: a tool that waits for the user. Questions live in hub.state, so an edit of this file loses
-- none of them. The page (front/) and scripts see and answer them through the routes.
--
--     model ── ask_user ──> pending question ──> GET /questions, POST /questions/:id {answer} ──> model

return function(options)
  local wait_s = options.wait_s or 20
  local questions = state.get("questions", {})

  local function pending()
    local list = {}
    for id, q in pairs(questions) do
      if q.answer == nil then list[#list + 1] = { id = id, question = q.question, choices = q.choices } end
    end
    table.sort(list, function(a, b) return a.id < b.id end)
    return json.array(list)
  end

  local function put(input)
    local n = state.get("last", 0) + 1
    state.set("last", n)
    local id = ("q%06d"):format(n)
    questions[id] = { question = input.question, choices = input.choices }
    hub.event.emit { type = "user.ask-user", data = { id = id } } -- open pages show it
    return id
  end

  -- The answer, or nil when none came in time.
  local function wait_for(id)
    local waited = 0
    while questions[id].answer == nil and waited < wait_s do
      timer.sleep(0.1)
      waited = waited + 0.1
    end
    local answer = questions[id].answer
    questions[id] = nil
    return answer
  end

  return {
    tools = {
      {
        name = "ask_user",
        override = true,
        description = "ask the user a question and wait for the answer",
        input = { question = "string", choices = "array?" },
        run = function(ctx, input)
          local answer = wait_for(put(input))
          if answer == nil then return nil, "no answer in time" end
          return answer
        end,
      },
    },
    routes = {
      ["GET /questions"] = function() return { questions = pending() } end,
      ["POST /questions/:id"] = function(req)
        local q, given = questions[req.params.id], req.json
        if not q then return response { status = 404, body = "there is no such question" } end
        if type(given) ~= "table" or type(given.answer) ~= "string" then
          return response { status = 400, body = "send {\"answer\": \"...\"}" }
        end
        q.answer = given.answer
        hub.event.emit { type = "user.ask-user", data = { id = req.params.id, answered = true } }
        return { ok = true }
      end,
    },
    prompt = "When a decision is the user's to make, ask with ask_user instead of guessing.",
    preserve_ui = "ask-user.pending",
  }
end
