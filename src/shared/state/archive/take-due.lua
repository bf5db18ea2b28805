--[[ Gives a worker ended runs to write into the archive. Each is due again after the lease unless it is removed: that worker may die.
KEYS[1] sorted set of runs by the time at which they are due   ARGV[1] most of them   ARGV[2] lease in milliseconds
Returns the time under which they are listed now, and the runs, longest due first. ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local taken = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
local lease = string.format('%.0f', now + ARGV[2])
for _, runId in ipairs(taken) do redis.call('ZADD', KEYS[1], lease, runId) end
return {lease, taken}
