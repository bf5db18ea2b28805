--[[ Shared fragment: commands with long lists. Lua cannot spread more than about 8,000 values at once; parts are even, so
that pairs stay together. ]]
local function inParts(list, call)
  for i = 1, #list, 1000 do call(unpack(list, i, math.min(i + 999, #list))) end
end

local function push(command, key, list)
  inParts(list, function(...) redis.call(command, key, ...) end)
end

local function valuesOf(key, fields)
  local values = {}
  inParts(fields, function(...)
    for _, value in ipairs(redis.call('HMGET', key, ...)) do values[#values + 1] = value end
  end)
  return values
end
