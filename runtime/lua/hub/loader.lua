-- hub.loader: reloading by hand. Protected; written in C (src/bind/loader.c), but for safe_require.
local loader = require "loader"

--- require() that answers instead of throwing: the module, or nil and why not.
function loader.safe_require(name)
  local ok, module = pcall(require, name)
  if ok then return module end
  log.warn("safe_require: " .. tostring(module))
  return nil, module
end

_G.safe_require = loader.safe_require
return loader
