--[[ Shared fragment: what a run waits for. Needs stored-json.
waitingFor(pending) returns an item for each element of the list in its record: `text`, and those of its fields that scripts
read, each of the type that it must have or absent. A damaged element must not block the run: the fields at its
beginning stay, or it is left out.
textsOf(items) returns the list as JSON.
people: kinds of items that a person decides about, call by call. ]]
-- The texts of the elements of a JSON array without white space around them, as far as it is one. Decoding and encoding them
-- again would turn [] into {}.
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

local people = { approval = true, user_input = true, unknown_outcome = true }
local itemFields = { kind = 'string', id = 'string', toolName = 'string', requestedAt = 'string', expiresAt = 'string',
  mode = 'string', approvers = 'number' }

-- The end of the text is the likeliest to be damaged, and the least important.
local function remainder(text)
  local kind, id = string.match(text, '^{"kind":"([%l_]+)","id":"([^"\\]+)"')
  if not kind then return nil end
  local item = { kind = kind, id = id, requestedAt = '' }
  return item, cjson.encode(item)
end

local function waitingFor(pending)
  local items = {}
  for _, text in ipairs(elements(pending or '[]')) do
    local whole = decoded(text)
    if not whole then whole, text = remainder(text) end
    local item = { text = text }
    for name, kind in pairs(whole and itemFields or {}) do
      if type(whole[name]) == kind then item[name] = whole[name] end
    end
    if item.kind and item.id then items[#items + 1] = item end
  end
  return items
end

local function textsOf(items)
  local texts = {}
  for at, item in ipairs(items) do texts[at] = item.text end
  return '[' .. table.concat(texts, ',') .. ']'
end
