--[[ Changes fields of a thread's manifest, if there is one.
KEYS[1] manifest
ARGV fields and values
Returns 1, or 0 when there is no such thread. ]]
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
