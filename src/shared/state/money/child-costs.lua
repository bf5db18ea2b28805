--[[ Shared fragment: what children have cost, in the record of the parent, where it stays right when no worker is left to
sum it up: a parent that ends writes its own sum.
addChildCost(cost) adds it; addChildCosts(texts) adds those of the ends of runs among these decisions. KEYS[1] run ]]
local function addChildCost(cost)
  redis.call('HINCRBY', KEYS[1], 'costMicrocents', cost)
  redis.call('HINCRBY', KEYS[1], 'childCostMicrocents', cost)
end

-- The answer of a run may be long: its id is in front of it, and its cost in the record.
local function childOf(text) return string.match(text, '^{"kind":"child","id":"([^"]+)"') end

local function addChildCosts(texts)
  for _, text in ipairs(texts) do
    local id = childOf(text)
    local cost = id and tonumber(redis.call('HGET', KEYS[1], 'ended:' .. id) or '')
    if cost then addChildCost(string.format('%.0f', cost)) end
  end
end
