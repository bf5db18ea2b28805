--[[ Shared fragment: the end of an archived run in seconds and its bytes, as one score. Both fit into the 53 bits of a number: sizes
are below 2^21. ]]
local function scoreOf(endS, bytes)
  return string.format('%.0f', tonumber(endS) * 2097152 + tonumber(bytes))
end

local function bytesOf(score)
  return tonumber(score) % 2097152
end
