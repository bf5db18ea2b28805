--[[ Gives a worker ended runs to write into the archive. Each is due again after the lease unless it is removed: that worker may die.
KEYS[1] sorted set of runs by the time at which they are due
ARGV[1] most of them  [2] lease in milliseconds  [3] how long before others this worker may take what it has ended itself
ARGV[4] and on: runs that it has ended itself
Returns the time under which they are listed now, and the runs. ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local most, lease = tonumber(ARGV[1]), string.format('%.0f', now + ARGV[2])
local taken = {}
local function take(runId)
  redis.call('ZADD', KEYS[1], lease, runId)
  taken[#taken + 1] = runId
end

for i = 4, #ARGV do
  local due = redis.call('ZSCORE', KEYS[1], ARGV[i])
  -- One with a lease is another worker's.
  if due and #taken < most and tonumber(due) <= now + ARGV[3] then take(ARGV[i]) end
end
local left = most - #taken
local others = left > 0 and redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, left) or {}
for _, runId in ipairs(others) do take(runId) end
return {lease, taken}
