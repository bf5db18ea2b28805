--[[ Shared fragment: the wait queues of runs that wait for money of an account. Needs accounts.
A run that is notified of its money leaves the queue, and for ten seconds the money is promised to it: `promises` has the
run by the time at which that lapses, `needs` what each waiting or notified run needs. ]]
local function leaveQueue(i, run)
  local left = redis.call('ZREM', KEYS[4 * i - 2], run) + redis.call('ZREM', KEYS[4 * i], run)
  if left > 0 then redis.call('HDEL', KEYS[4 * i - 1], run) end
end

local function nowMs()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function needsOf(i, runs)
  return #runs > 0 and redis.call('HMGET', KEYS[4 * i - 1], unpack(runs)) or {}
end

-- Money that is promised to runs which have not asked for it yet: no other run gets it.
local function promised(i)
  for _, run in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4 * i], '-inf', nowMs(), 'LIMIT', 0, 500)) do leaveQueue(i, run) end
  local sum = 0
  for _, need in ipairs(needsOf(i, redis.call('ZRANGE', KEYS[4 * i], 0, 4999))) do sum = sum + number(need) end
  return sum
end

-- Waiting runs whose money is there, oldest first and all together. One that would not fit even if all calls under way
-- were free does not block those behind it.
local function fitting(i)
  local fits, waiting = {}, redis.call('ZRANGE', KEYS[4 * i - 2], 0, 499)
  if #waiting == 0 then return fits end
  local account = readAccount(i)
  local total = account.hard and account.cap - account.spent - account.held or math.huge
  local left = total - (account.reserved - account.held) - promised(i)
  for at, need in ipairs(needsOf(i, waiting)) do
    need = number(need)
    if need <= total then
      left = left - need
      if left < 0 then break end
      fits[#fits + 1] = waiting[at]
    end
  end
  return fits
end

local function promise(i, run)
  redis.call('ZREM', KEYS[4 * i - 2], run)
  redis.call('ZADD', KEYS[4 * i], nowMs() + 10000, run)
  redis.call('EXPIRE', KEYS[4 * i], 3600)
end

local function takeFitting(i, taken)
  for _, run in ipairs(fitting(i)) do
    promise(i, run)
    taken[#taken + 1] = run
  end
  return taken
end
