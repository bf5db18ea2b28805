--[[ Shared fragment: the money that a run holds for its closing call. Needs accounts; the first account is the run's.
It is the field `hold` of the run's account: what is held, and the window of the tenant's account in which it is. In each
account it is a part of `reserved`, and `held` is the sum of such parts: no call under way turns out cheaper by it. ]]
local function ownHold()
  local value = redis.call('HGET', accountKey(1), 'hold')
  if not value then return nil end
  local amount, window = string.match(value, '^(%d+) (%S+)$')
  return { amount = tonumber(amount), window = window }
end

-- Is all of it in the present windows?
local function isPresent(hold) return hold.window == ARGV[2] end

-- The part of an account that is this run's.
local function heldIn(i, hold)
  if not hold or (i == accounts and not isPresent(hold)) then return 0 end
  return hold.amount
end

local function bookHold(key, amount)
  redis.call('HINCRBY', key, 'reserved', amount)
  redis.call('HINCRBY', key, 'held', amount)
end

local function addHold(amount)
  redis.call('HSET', accountKey(1), 'hold', string.format('%.0f %s', amount, ARGV[2]))
  for i = 1, accounts do bookHold(accountKey(i), amount) end
end

-- What is in a window of the tenant that is long past went away with it.
local function dropHold(hold)
  redis.call('HDEL', accountKey(1), 'hold')
  for i = 1, accounts do
    if i < accounts or isPresent(hold) then bookHold(accountKey(i), -hold.amount)
    elseif hold.window == ARGV[3] then bookHold(KEYS[lastKey], -hold.amount) end
  end
end
