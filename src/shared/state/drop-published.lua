--[[ Takes lifecycle events that are in the stream of all runs off a run's own.
KEYS[1] the run's lifecycle events  ARGV their entry ids
Returns how many are left. ]]
redis.call('XDEL', KEYS[1], unpack(ARGV))
local left = redis.call('XLEN', KEYS[1])
if left == 0 then redis.call('DEL', KEYS[1]) end
return left
