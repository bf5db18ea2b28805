--[[ Shared fragment: the lines of runs that wait for money of an account. Needs accounts.
A run that is told of its money leaves the line, and for ten seconds nobody else is told of that money: `promises` holds
it by the time at which that lapses, `needs` what each run in line or told needs. ]]
local function leaveLine(i, run)
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

-- Money that runs were told of shortly before, and have not asked for yet: nobody else is told of it.
local function promised(i)
  for _, run in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4 * i], '-inf', nowMs(), 'LIMIT', 0, 500)) do leaveLine(i, run) end
  local sum = 0
  for _, need in ipairs(needsOf(i, redis.call('ZRANGE', KEYS[4 * i], 0, 4999))) do sum = sum + number(need) end
  return sum
end

-- Runs in line whose money is there, oldest first and all together. One that would not fit even if all calls under way
-- were free waits for another day and keeps nobody from what is left.
local function whoFits(i)
  local fits, waiting = {}, redis.call('ZRANGE', KEYS[4 * i - 2], 0, 499)
  if #waiting == 0 then return fits end
  local account = readAccount(i)
  local total = account.hard and account.cap - account.spent or math.huge
  local left = total - account.reserved - promised(i)
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

local function tell(i, run)
  redis.call('ZREM', KEYS[4 * i - 2], run)
  redis.call('ZADD', KEYS[4 * i], nowMs() + 10000, run)
  redis.call('EXPIRE', KEYS[4 * i], 3600)
end

local function takeWhoFits(i, taken)
  for _, run in ipairs(whoFits(i)) do
    tell(i, run)
    taken[#taken + 1] = run
  end
  return taken
end
