test("what cannot be done is said", function(t)
  local done, why = t.command("try")
  t.equal(done, nil)
  t.equal(why, "cannot notify: not while validating") -- tests run apart, where nothing can be started
end)
