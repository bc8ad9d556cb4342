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

test("CSV has quotes, commas and line ends inside of them", function(t)
  local csv = require "csv"
  local columns, rows, total = csv.read('a,b\r\n1,"x, ""y"""\r\n"two\nlines",\n\n3,z', 2)
  t.equal(table.concat(columns, "|"), "a|b")
  t.equal(total, 3)
  t.equal(#rows, 2)
  t.equal(rows[1][2], 'x, "y"')
  t.equal(rows[2][1], "two\nlines")
  t.equal(rows[2][2], "")
end)
