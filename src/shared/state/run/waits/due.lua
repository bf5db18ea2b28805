--[[ Returns members that are due. Each is due again after the lease unless it is removed: the worker that got it may die.
KEYS[1] timers   ARGV[1] most of them   ARGV[2] lease in milliseconds
Returns the members, soonest first. ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, member in ipairs(due) do redis.call('ZADD', KEYS[1], now + ARGV[2], member) end
return due
