--[[ Removes a thread that is free. Runs that left it are still known, so that none of them makes it again.
KEYS as in wait-queue.lua
ARGV[1] how many of the runs in its way are named
Returns {0} there is none; {1} removed; {2, lock owner, runs that wait...} in use. ]]
local lockOwner = redis.call('HGET', KEYS[1], 'lockOwner')
if not lockOwner then return {0} end
if lockOwner ~= '' then return {2, lockOwner, unpack(redis.call('ZRANGE', KEYS[2], 0, tonumber(ARGV[1]) - 2))} end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6], KEYS[7], KEYS[8])
return {1}
