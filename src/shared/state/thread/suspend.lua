--[[ Marks the lock owner of a thread as suspended. It keeps the lock.
KEYS[1] manifest
ARGV[1] run  [2] fence
Returns 1, or 0 when another run or worker has the lock. ]]
local state = redis.call('HMGET', KEYS[1], 'lockOwner', 'fence')
if state[1] ~= ARGV[1] or state[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'suspendedBy', ARGV[1])
return 1
