--[[ Shared fragment: elements(json) answers the texts of the elements of a JSON array without white space around them, as far
as it is one. Decoding and encoding them again would turn [] into {}. ]]
local function elements(json)
  local list, depth, from, at = {}, 0, 0, 1
  while true do
    local here, _, char = string.find(json, '([%[%]{}",])', at)
    if not here then return list end
    at = here + 1
    if char == '"' then
      -- To the closing quote: the first one without a backslash before it.
      repeat
        local stop, _, mark = string.find(json, '(["\\])', at)
        if not stop then return list end
        at = stop + (mark == '"' and 1 or 2)
      until mark == '"'
    elseif char == '[' or char == '{' then
      depth = depth + 1
      if depth == 1 then from = at end
    else
      if depth == 1 then
        if here > from then list[#list + 1] = string.sub(json, from, here - 1) end
        from = at
      end
      if char ~= ',' then depth = depth - 1 end
    end
  end
end
