-- hello: the smallest plugin that shows one of everything. It has no manifest: a directory with an
-- init.lua is enough.

local greetings = { en = "Hello", de = "Hallo", fr = "Bonjour" }

local function greet(name, language)
  return (greetings[language] or greetings.en) .. ", " .. (name or "world") .. "!"
end

tool {
  name = "hello",
  description = "greet someone in their language",
  input = { name = "string", language = { type = "string?", enum = { "en", "de", "fr" } } },
  run = function(ctx, input) return greet(input.name, input.language) end,
}

route("GET", "/greet/:name", function(req)
  return { text = greet(req.params.name, req.query.language) }
end)

command {
  name = "greet",
  description = "greet someone",
  run = function(args) return greet(args[1], args[2]) end,
}

on_final(function(ctx, text)
  if ctx.state.hello_signed then return text end
  ctx.state.hello_signed = true
  return text .. "\n-- greeted by hello"
end)
