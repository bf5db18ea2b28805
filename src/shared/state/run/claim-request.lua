--[[ Takes the execution id of a request whose run is not created yet, so that no other request can take it meanwhile.
KEYS[1] run  KEYS[2] claim of the request
ARGV[1] hash of the request  [2] milliseconds for which it is kept
Returns {0} taken, now or before; {1} the run exists; {2} the id belongs to another request; {3, run, 0 or 1} taken before, and
its message is meant for the inbox of this run, or (1) is in it. ]]
local known = redis.call('HGET', KEYS[1], 'bodyHash')
if known then return {known == ARGV[1] and 1 or 2} end
local hash, listener, delivered = unpack(redis.call('HMGET', KEYS[2], 'bodyHash', 'listener', 'delivered'), 1, 3)
if hash and hash ~= ARGV[1] then return {2} end
if listener then return {3, listener, tonumber(delivered)} end
redis.call('HSET', KEYS[2], 'bodyHash', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {0}
