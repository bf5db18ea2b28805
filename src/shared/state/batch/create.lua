--[[ Creates a batch.
KEYS[1] record   ARGV: its fields and values, in turn
Returns 1, or 0 when there is one of this id. ]]
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
