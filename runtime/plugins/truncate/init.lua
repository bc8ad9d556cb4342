-- truncate: long tool output costs tokens; the model sees its head and tail.

return function(options)
  local most = options.most or 4000
  return {
    hooks = {
      on_tool_result = function(ctx, call, result)
        local text = result.output
        if type(text) ~= "string" or #text <= most then return end
        local half = most // 2
        local head = text:sub(1, utf8.offset(text, 0, half + 1) - 1)
        local tail = text:sub(utf8.offset(text, 0, #text - half + 1))
        result.output = head .. ("\n[... %d bytes left out by truncate ...]\n"):format(#text - #head - #tail) .. tail
        return result
      end,
    },
  }
end
