--[[ Takes members whose time has come out of a sorted set.
KEYS[1] timers   ARGV[1] most of them
Returns the members, soonest first. ]]
local now = redis.call('TIME')
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now[1] * 1000 + math.floor(now[2] / 1000), 'LIMIT', 0, ARGV[1])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
return due
