-- What the official conformance suite expects of a server: the tools, prompts and resources that it calls by name.

local PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
local WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

local function text(s) return { type = "text", text = s } end
local function object(properties, required)
  return { type = "object", properties = properties, required = json.array(required or {}) }
end
local function simple(name, description, run)
  mcp.tool { name = name, description = description, run = run }
end

-- ---- tools ------------------------------------------------------------------

simple("test_simple_text", "answers a text", function() return "This is a simple text response for testing." end)
simple("test_image_content", "answers an image", function()
  return { content = { { type = "image", data = PNG, mimeType = "image/png" } } }
end)
simple("test_audio_content", "answers a sound", function()
  return { content = { { type = "audio", data = WAV, mimeType = "audio/wav" } } }
end)
simple("test_embedded_resource", "answers a resource", function()
  return { content = { { type = "resource", resource = { uri = "test://embedded-resource", mimeType = "text/plain",
    text = "This is an embedded resource content." } } } }
end)
simple("test_multiple_content_types", "answers text, image and resource", function()
  return { content = { text("Multiple content types test:"), { type = "image", data = PNG, mimeType = "image/png" },
    { type = "resource", resource = { uri = "test://mixed-content-resource", mimeType = "application/json",
      text = '{"test":"data","value":123}' } } } }
end)
simple("test_error_handling", "always fails", function()
  return nil, "This tool intentionally returns an error for testing"
end)
simple("test_tool_with_logging", "logs as it runs", function(ctx)
  ctx.log("info", "Tool execution started")
  timer.sleep(0.05)
  ctx.log("info", "Tool processing data")
  timer.sleep(0.05)
  ctx.log("info", "Tool execution completed")
  return "done"
end)
simple("test_logging_tool", "logs once", function(ctx)
  ctx.log("info", "only for those who asked")
  return "done"
end)
simple("test_tool_with_progress", "tells how far it is", function(ctx)
  for _, done in ipairs { 0, 50, 100 } do
    ctx.progress("Completed step " .. done .. " of 100", done, 100)
    timer.sleep(0.05)
  end
  return "done"
end)
simple("test_reconnection", "takes its time", function(ctx)
  ctx.log("info", "started")
  timer.sleep(0.2)
  return "Reconnection test completed successfully"
end)

local function shown(r)
  return "action=" .. r.action .. ", content=" .. json.encode(r.content or {})
end

mcp.tool { name = "test_sampling", description = "asks the client's model", input = { prompt = "string" },
  run = function(ctx, input)
    local r, why = ctx.sample { messages = { { role = "user", content = text(input.prompt) } }, max_tokens = 100 }
    if not r then return nil, why end
    return "LLM response: " .. r.content.text
  end }
mcp.tool { name = "test_elicitation", description = "asks the user", input = { message = "string" },
  run = function(ctx, input)
    local r, why = ctx.elicit { message = input.message, schema = object({
      username = { type = "string", description = "User's response" },
      email = { type = "string", description = "User's email address" } }, { "username", "email" }) }
    if not r then return nil, why end
    return "User response: " .. shown(r)
  end }
local function elicits(name, properties)
  simple(name, "asks the user", function(ctx)
    local r, why = ctx.elicit { message = "Please review and update the form fields", schema = object(properties) }
    if not r then return nil, why end
    return "Elicitation completed: " .. shown(r)
  end)
end
elicits("test_elicitation_sep1034_defaults", {
  name = { type = "string", default = "John Doe" }, age = { type = "integer", default = 30 },
  score = { type = "number", default = 95.5 }, verified = { type = "boolean", default = true },
  status = { type = "string", enum = { "active", "inactive", "pending" }, default = "active" } })
local titled = { { const = "value1", title = "First Option" }, { const = "value2", title = "Second Option" },
  { const = "value3", title = "Third Option" } }
elicits("test_elicitation_sep1330_enums", {
  untitledSingle = { type = "string", enum = { "option1", "option2", "option3" } },
  titledSingle = { type = "string", oneOf = titled },
  legacyEnum = { type = "string", enum = { "opt1", "opt2", "opt3" },
    enumNames = { "Option One", "Option Two", "Option Three" } },
  untitledMulti = { type = "array", items = { type = "string", enum = { "option1", "option2", "option3" } } },
  titledMulti = { type = "array", items = { anyOf = titled } } })

mcp.tool { name = "json_schema_2020_12_tool", description = "Tool with JSON Schema 2020-12 features", check = false,
  input_schema = {
    ["$schema"] = "https://json-schema.org/draft/2020-12/schema", type = "object",
    ["$defs"] = { address = { ["$anchor"] = "addressDef", type = "object",
      properties = { street = { type = "string" }, city = { type = "string" } } } },
    properties = { name = { type = "string" }, address = { ["$ref"] = "#/$defs/address" },
      contactMethod = { type = "string", enum = { "phone", "email" } }, phone = { type = "string" },
      email = { type = "string" } },
    allOf = { { anyOf = { { required = { "phone" } }, { required = { "email" } } } } },
    ["if"] = { properties = { contactMethod = { const = "phone" } }, required = { "contactMethod" } },
    ["then"] = { required = { "phone" } }, ["else"] = { required = { "email" } },
    additionalProperties = false },
  run = function(_, input) return input end }
mcp.tool { name = "test_custom_header", description = "has a parameter that is also a header",
  input = { region = { type = "string", ["x-mcp-header"] = "Region" }, size = { type = "integer?", ["x-mcp-header"] = "Size" } },
  run = function(_, input) return input.region end }

-- ---- questions of the stateless era ------------------------------------------

local NAME = object({ name = { type = "string" } }, { "name" })
local OK = object({ ok = { type = "boolean" } }, { "ok" })

simple("test_input_required_result_elicitation", "asks for a name", function(ctx)
  local r = ctx.elicit { key = "user_name", message = "What is your name?", schema = NAME }
  return "Hello, " .. r.content.name .. "!"
end)
simple("test_input_required_result_sampling", "asks the model", function(ctx)
  local r = ctx.sample { key = "capital_question", max_tokens = 100,
    messages = { { role = "user", content = text("What is the capital of France?") } } }
  return r.content.text
end)
simple("test_input_required_result_list_roots", "asks for roots", function(ctx)
  local r = ctx.roots { key = "client_roots" }
  return json.encode(r.roots)
end)
simple("test_input_required_result_request_state", "keeps a state", function(ctx)
  ctx.elicit { key = "confirm", message = "Please confirm", schema = OK }
  return "state-ok"
end)
simple("test_input_required_result_tampered_state", "keeps a signed state", function(ctx)
  ctx.elicit { key = "confirm", message = "Please confirm", schema = OK }
  return "state-ok"
end)
simple("test_input_required_result_multiple_inputs", "asks three things at once", function(ctx)
  local r = ctx.ask {
    user_name = { method = "elicitation/create", params = { message = "What is your name?", requestedSchema = NAME } },
    greeting = { method = "sampling/createMessage", params = { maxTokens = 50,
      messages = { { role = "user", content = text("Generate a greeting") } } } },
    client_roots = { method = "roots/list", params = {} } }
  return json.encode(r)
end)
simple("test_input_required_result_multi_round", "asks twice", function(ctx)
  local name = ctx.elicit { key = "step1", message = "Step 1: What is your name?", schema = NAME }
  local color = ctx.elicit { key = "step2", message = "Step 2: What is your favorite color?",
    schema = object({ color = { type = "string" } }, { "color" }) }
  return name.content.name .. " likes " .. color.content.color
end)
simple("test_input_required_result_capabilities", "asks what the client can answer", function(ctx)
  local questions = {}
  if ctx.client.capabilities.sampling then
    questions.sample = { method = "sampling/createMessage", params = { maxTokens = 10,
      messages = { { role = "user", content = text("Say hello") } } } }
  end
  if ctx.client.capabilities.elicitation then
    questions.elicit = { method = "elicitation/create", params = { message = "Name?", requestedSchema = NAME } }
  end
  return json.encode(ctx.ask(questions))
end)
simple("test_missing_capability", "needs a client with sampling", function(ctx) return ctx.sample("Say hello") end)
simple("test_streaming_elicitation", "asks the user", function(ctx)
  ctx.progress("asking", 1, 2)
  return ctx.elicit { message = "Name?", schema = NAME }
end)

-- ---- lists that change ---------------------------------------------------------

local toggled
simple("test_trigger_tool_change", "adds a tool, or takes it back", function()
  if toggled then
    toggled.off()
    toggled = nil
  else
    toggled = mcp.tool { name = "test_toggled", description = "comes and goes", run = function() return "here" end }
  end
  return "done"
end)
local prompted
simple("test_trigger_prompt_change", "adds a prompt, or takes it back", function()
  if prompted then
    prompted.off()
    prompted = nil
  else
    prompted = mcp.prompt { name = "test_toggled", description = "comes and goes", get = function() return "here" end }
  end
  return "done"
end)

-- ---- prompts ---------------------------------------------------------------------

mcp.prompt { name = "test_simple_prompt", description = "a text",
  get = function() return "This is a simple prompt for testing." end }
mcp.prompt { name = "test_prompt_with_arguments", description = "two arguments",
  arguments = { { name = "arg1", description = "First test argument", required = true,
    values = { "test", "testing", "paris" } }, { name = "arg2", description = "Second test argument", required = true } },
  get = function(args)
    return "Prompt with arguments: arg1='" .. args.arg1 .. "', arg2='" .. args.arg2 .. "'"
  end }
mcp.prompt { name = "test_prompt_with_embedded_resource", description = "a resource",
  arguments = { { name = "resourceUri", description = "URI of the resource to embed", required = true } },
  get = function(args)
    return { { role = "user", content = { type = "resource", resource = { uri = args.resourceUri,
      mimeType = "text/plain", text = "Embedded resource content for testing." } } },
      { role = "user", content = "Please process the embedded resource above." } }
  end }
mcp.prompt { name = "test_prompt_with_image", description = "an image", get = function()
  return { { role = "user", content = { type = "image", data = PNG, mimeType = "image/png" } },
    { role = "user", content = "Please analyze the image above." } }
end }
mcp.prompt { name = "test_input_required_result_prompt", description = "asks for context", get = function(_, ctx)
  local r = ctx.elicit { key = "user_context", message = "What context should the prompt use?",
    schema = object({ context = { type = "string" } }, { "context" }) }
  return "Use this context: " .. r.content.context
end }

-- ---- resources ---------------------------------------------------------------------

mcp.resource { uri = "test://static-text", name = "static-text", description = "a text", mime = "text/plain",
  read = function() return "This is the content of the static text resource." end }
mcp.resource { uri = "test://static-binary", name = "static-binary", description = "an image", mime = "image/png",
  read = function() return { blob = PNG } end }
mcp.resource { uri = "test://watched-resource", name = "watched-resource", description = "one to subscribe to",
  mime = "text/plain", read = function() return "Watched." end }
mcp.resource { uri_template = "test://template/{id}/data", name = "template", description = "by id",
  mime = "application/json", read = function(_, params)
    return { text = json.encode { id = params.id, templateTest = true, data = "Data for ID: " .. params.id } }
  end }
