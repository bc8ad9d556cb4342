test("requests go out until the bound is reached", function(t)
  local ctx, request = { session_id = "s" }, { model = "m", messages = {} }
  t.equal(t.hook("on_before_model", ctx, request), nil)
  t.hook("on_after_model", ctx, { text = "", usage = { input = 499000, output = 1000 } })
  t.ok(t.hook("on_before_model", ctx, request).response.text:find("500000 of 500000", 1, true))
end)
