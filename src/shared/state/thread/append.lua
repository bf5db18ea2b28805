--[[ Writes entries and manifest fields for the lock owner of a thread: all of it, or nothing.
KEYS as in wait-queue.lua
ARGV[1] run  [2] fence  [3] operation id  [4] ISO time  [5] number of field and value strings; these follow, then for each
entry what it is (N, S a summary, R how the turn ended, U and a key: kept once per key) and its JSON
Returns {0} fenced; {1, last number} written, now or by the same operation of this turn before; {2, last number} the turn of
this run is rolled back: nothing is written, and what it wrote is removed.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include roll-back
local before = redis.call('HGET', KEYS[6], ARGV[3])
if before then return {1, tonumber(before)} end
local state = redis.call('HMGET', KEYS[1], 'lockOwner', 'fence', 'seq', 'rollback', 'summarySeq', 'session')
local lockOwner, fence, seq, rollback, summary, session = unpack(state, 1, 6)
if lockOwner ~= ARGV[1] or fence ~= ARGV[2] then return {0} end
if rollback == lockOwner then
  rollBack('lockedFromSeq')
  return {2, tonumber(seq)}
end

local fields, from, first = {}, 6 + tonumber(ARGV[5]), seq
for i = 6, from - 1 do fields[#fields + 1] = ARGV[i] end
for i = from, #ARGV, 2 do
  local kind, key = string.sub(ARGV[i], 1, 1), string.sub(ARGV[i], 2)
  if kind ~= 'U' then
    seq = seq + 1
    redis.call('XADD', KEYS[3], seq .. '-0', 'e', ARGV[i + 1])
    if kind == 'S' then summary = seq end
    if kind == 'R' then
      redis.call('HSET', KEYS[1], 'endedRun', lockOwner, 'endedFromSeq', first, 'endedSession', session or '')
    end
  elseif redis.call('HEXISTS', KEYS[5], key) == 0 then
    seq = seq + 1
    redis.call('XADD', KEYS[3], seq .. '-0', 'e', ARGV[i + 1], 'k', key)
    redis.call('HSET', KEYS[5], key, seq)
  end
end
redis.call('HSET', KEYS[6], ARGV[3], seq)
redis.call('HSET', KEYS[1], 'seq', seq, 'summarySeq', summary, 'updatedAt', ARGV[4], unpack(fields))
return {1, tonumber(seq)}
