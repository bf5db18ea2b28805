--[[ Removes lifecycle events and audit entries from the stream of a run once they are in the streams of all runs.
KEYS[1] the run's stream of them  ARGV their ids in it
Returns how many are left. ]]
redis.call('XDEL', KEYS[1], unpack(ARGV))
local left = redis.call('XLEN', KEYS[1])
if left == 0 then redis.call('DEL', KEYS[1]) end
return left
