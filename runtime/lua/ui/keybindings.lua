-- Which key runs which action. In inputs and terminals only the keys of palette.open, quit, focus.next and
-- focus.prev work; all others are typed. A key that is set to false does nothing.
return {
  ["ctrl+p"] = "palette.open",
  ["ctrl+n"] = "session.new",
  ["tab"] = "focus.next",
  ["shift+tab"] = "focus.prev",
  ["ctrl+r"] = "reload",
  ["ctrl+q"] = "quit",
  ["?"] = "help.open",
  ["esc"] = "escape",
  ["ctrl+l"] = "redraw",
  ["s"] = "view.sessions",
  ["p"] = "view.plugins",
  ["r"] = "view.runs",
  ["t"] = "terminal.new",
  ["i"] = "focus.input",
  ["x"] = "session.interrupt",
  ["m"] = "permission.next",
  ["e"] = "ended.toggle",
  ["o"] = "details.toggle",
}
