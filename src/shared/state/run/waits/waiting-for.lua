--[[ Shared fragment: what a run waits for. Needs json-elements and stored-json.
waitingFor(pending) returns an item for each element of the list in its record: `text`, and those of its fields that scripts
read, each of the type that it must have or absent. A damaged element must not block the run: what its beginning says of it
stays, or it is left out.
textsOf(items) returns the list as JSON.
people: kinds of items that a person decides about, call by call. ]]
local people = { approval = true, user_input = true, unknown_outcome = true }
local itemFields = { kind = 'string', id = 'string', toolName = 'string', requestedAt = 'string', expiresAt = 'string',
  mode = 'string', approvers = 'number' }

-- What is written last is the likeliest to be damaged, and what says least about the item.
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
