--[[ Locks a thread for the worker that has claimed a run, if the run owns the lock or the thread is free; else the run waits.
When a worker wrote how the turn ended and was lost before the run ended, that result is removed: the turn may end otherwise now.
KEYS as in lock.lua
ARGV[1] run  [2] agent  [3] thread  [4] ISO time  [5] number of the claim of the run  [6] time before which a
run that left is forgotten, in milliseconds since the epoch
Returns {6} a later claim of the run has come: this worker was lost in between, and must not undo what that one wrote;
{2, fence, manifest fields} the run owns the lock, and only writes with this fence count from now on; else as join in
lock.lua.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include lock
-- include roll-back
-- `acquiredBy` names the last lock owner also after it has left. Once its record has expired, another run may have its id, and
-- the claims of that run are counted from 1: so only a run that left not long ago is compared.
local taken = redis.call('HMGET', KEYS[1], 'acquiredBy', 'acquiredEpoch')
local left = tonumber(redis.call('ZSCORE', KEYS[4], ARGV[1]) or 0) > tonumber(ARGV[6])
local before = left and taken[1] == ARGV[1] and taken[2] or 0
local claimed = redis.call('HGET', KEYS[8], ARGV[1]) or 0
if math.max(tonumber(before), tonumber(claimed)) > tonumber(ARGV[5]) then return {6} end
local answer = join(ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'queue')
if answer[1] == 2 or answer[1] == 3 then redis.call('HSET', KEYS[8], ARGV[1], ARGV[5]) end
if answer[1] ~= 2 then return answer end
local fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)
redis.call('HSET', KEYS[1], 'suspendedBy', '', 'releasedBy', '', 'acquiredBy', ARGV[1], 'acquiredEpoch', ARGV[5])
if redis.call('HGET', KEYS[1], 'endedRun') == ARGV[1] then
  rollBack('endedFromSeq')
  redis.call('HSET', KEYS[1], 'endedRun', '', 'session', redis.call('HGET', KEYS[1], 'endedSession'))
  redis.call('DEL', KEYS[6])
end
-- A redriven run has left before.
redis.call('ZREM', KEYS[4], ARGV[1])
return {2, fence, redis.call('HGETALL', KEYS[1])}
