--[[ Shared fragment: what runs below have cost, in the record of the run above, where it stays right when no worker is left to
sum it up: one that ends writes its own sum.
addCost(cost) adds it; addCosts(texts) adds those of the ends of runs among these decisions. KEYS[1] run ]]
local function addCost(cost)
  redis.call('HINCRBY', KEYS[1], 'costMicrocents', cost)
  redis.call('HINCRBY', KEYS[1], 'childCostMicrocents', cost)
end

local function addCosts(texts)
  for _, text in ipairs(texts) do
    -- What a run said may be long: its id is in front of it, and its cost in the record.
    local id = string.match(text, '^{"kind":"child","id":"([^"]+)"')
    if id then addCost(redis.call('HGET', KEYS[1], 'ended:' .. id)) end
  end
end
