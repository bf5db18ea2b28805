--[[ Shared fragment: decoded(json) returns the table in a stored JSON text, or nil. It never throws: a script cannot undo what
it has written, and a damaged text must not keep a run from its end. The decoder refuses half characters, which JSON may
contain as \ud83d; they count as U+FFFD here. ]]
local function wholeEscape(char, digits)
  if char == 'u' and string.find(digits, '^[dD][89a-fA-F]') then return '\\ufffd' end
end

local function decoded(json)
  if type(json) ~= 'string' then return nil end
  local isJson, value = pcall(cjson.decode, json)
  if not isJson then isJson, value = pcall(cjson.decode, (string.gsub(json, '\\(.)(%x?%x?%x?%x?)', wholeEscape))) end
  return isJson and type(value) == 'table' and value or nil
end
