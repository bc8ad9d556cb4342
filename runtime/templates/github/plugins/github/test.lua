local text = require "text"

test("it reads a repository from a remote's address", function(t)
  t.equal(text.repository("git@github.com:ada/engine.git"), "ada/engine")
  t.equal(text.repository("https://github.com/ada/engine"), "ada/engine")
  t.equal(text.repository("/srv/git/engine.git"), nil)
end)

test("a line names number, title, state, author and labels", function(t)
  local issue = { number = 7, title = "it leaks", state = "open", user = { login = "ada" }, labels = { { name = "bug" } } }
  t.equal(text.line(issue), "#7 it leaks (open, ada) [bug]")
  t.equal(text.lines({}), "none")
end)

test("an issue is shown with its comments", function(t)
  local issue = { number = 7, title = "it leaks", state = "open", user = json.null, labels = {}, body = json.null }
  local shown = text.whole(issue, { { user = { login = "bob" }, created_at = "2026-01-01", body = "me too" } })
  t.ok(shown:find("(no text)", 1, true) and shown:find("bob, 2026-01-01\nme too", 1, true))
end)

test("a refusal says what to do", function(t)
  t.ok(text.failure(401, "Bad credentials", true):find("afloat secret set GITHUB_TOKEN", 1, true))
  t.ok(text.failure(404, "Not Found", false):find("needs a token", 1, true))
end)
