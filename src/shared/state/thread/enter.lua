--[[ Gives a run the lock of a thread, or a position in its wait queue, when it is accepted. Again for the same run changes nothing.
KEYS as in wait-queue.lua
ARGV[1] run  [2] agent  [3] thread  [4] ISO time  [5] queue, reject, interrupt or rollback  [6] time before which a run
that left is forgotten, in milliseconds since the epoch
Returns {1} the run has left before; else as join in wait-queue.lua.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include lock
local left = redis.call('ZSCORE', KEYS[4], ARGV[1])
if left and tonumber(left) > tonumber(ARGV[6]) then return {1} end
local answer = join(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if left then redis.call('ZREM', KEYS[4], ARGV[1]) end
return answer
