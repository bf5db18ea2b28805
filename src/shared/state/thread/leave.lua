--[[ Takes a run out of a thread. When it is the lock owner, the first run of the wait queue becomes the lock owner.
KEYS as in wait-queue.lua
ARGV[1] run  [2] milliseconds since the epoch  [3] how long runs that left are remembered, in milliseconds
[4] how many of them  [5] number of the claim that the run ended with, or '' when nothing is known of it
A run that has come to acquire the lock with a later claim is not taken out: it was redriven since, and this call is late.
Returns the new lock owner, which needs a job, or ''. A repeat after a lost reply returns the same run until it has acquired
the lock.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include lock
-- include roll-back
local state = redis.call('HMGET', KEYS[1], 'lockOwner', 'seq', 'summarySeq', 'rollback', 'releasedBy')
local lockOwner, seq, summary, rollback, releasedBy = unpack(state, 1, 5)
local claimed = redis.call('HGET', KEYS[8], ARGV[1])
if claimed and ARGV[5] ~= '' and tonumber(claimed) > tonumber(ARGV[5]) then return '' end

redis.call('ZADD', KEYS[4], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', tonumber(ARGV[2]) - tonumber(ARGV[3]))
redis.call('ZREMRANGEBYRANK', KEYS[4], 0, -1 - tonumber(ARGV[4]))
redis.call('PEXPIRE', KEYS[4], ARGV[3])
redis.call('HDEL', KEYS[8], ARGV[1])
if lockOwner ~= ARGV[1] then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return lockOwner and releasedBy == ARGV[1] and lockOwner or ''
end

if rollback == lockOwner then summary = rollBack('lockedFromSeq') end
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1] or ''
lockFor(first, seq, summary, first ~= '' and lockOwner or '')
if first ~= '' then redis.call('ZREM', KEYS[2], first) end
return first
