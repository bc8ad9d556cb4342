local catalog = require "catalog"

test("every word must occur", function(t)
  local sets = { { name = "orders", columns = { "total" } }, { name = "people" } }
  t.equal(#catalog.search(sets, "order TOTAL"), 1)
  t.equal(#catalog.search(sets, "order people"), 0)
  t.equal(#catalog.search(sets, ""), 2)
end)

test("an unknown data set is a failure that names it", function(t)
  local set, why = t.tool("catalog_describe", { name = "x" })
  t.equal(set, nil)
  t.equal(why, "there is no data set 'x'")
end)
