--[[ Lists a thread that is about to be made, if its tenant has room for it. One that is listed stays as it is.
KEYS[1] threads of the tenant
ARGV[1] thread  [2] milliseconds since the epoch  [3] the most that may be listed
Returns 1 it is listed, 0 there is no room. ]]
local max = tonumber(ARGV[3])
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 1 end
if redis.call('ZCARD', KEYS[1]) >= max then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
