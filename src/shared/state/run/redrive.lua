--[[ Queues a failed run again, to continue from its journal. Its event numbers go on; its log begins again after the
terminal event, so that a log has exactly one of those and nothing after it. It gets its whole wall time again.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, in a Cluster the run's own
KEYS[5] decisions that the journal does not have  KEYS[6] all decisions
ARGV[1] nonce of this call  [2] queue  [3] ISO time  [4] run.queued event
ARGV[5] event log length  [6] live channel  [7] firehose channel  [8] publish command  [9] a new deadline as ISO time, or ''
ARGV[10] when a worker has to have begun it, as ISO time, or ''
Returns {0} gone, {1, status} not failed, {2, segment} queued again, now or by this very call before. ]]
-- include ../append-events
-- include ../stored-json
local run = redis.call('HMGET', KEYS[1], 'status', 'segment', 'op', 'lastSequence', 'epoch')
if not run[1] then return {0} end
if run[3] == ARGV[1] then return {2, tonumber(run[2])} end
if run[1] ~= 'failed' then return {1, run[1]} end

local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(run[4])
local segment = tonumber(run[2]) + 1
local last = decoded(redis.call('LINDEX', KEYS[2], -1))
redis.call('HSET', KEYS[1], 'status', 'queued', 'queue', ARGV[2], 'segment', segment, 'op', ARGV[1], 'owner', '',
  'held', '0', 'crashes', '0', 'blame', '0', 'excuses', '0', 'updatedAt', ARGV[3], 'logStart', seq, 'lastSequence', seq + 1,
  'redrivenEpoch', run[5])
if run[5] ~= '0' then redis.call('HINCRBY', KEYS[1], 'redrives', 1) end
redis.call('HDEL', KEYS[1], 'endedAt', 'error', 'result', 'unfinished', 'cancel', 'requeues', 'workedMs', 'unarchived')
-- What the counters of the tenant have of this run already.
local counted = redis.call('HMGET', KEYS[1], 'attempts', 'toolCalls', 'toolErrors')
local known = counted[1] and decoded(counted[1])
local attempts = type(known) == 'table' and #known or 0
redis.call('HSET', KEYS[1], 'attemptsBefore', attempts, 'toolCallsBefore', counted[2] or 0, 'toolErrorsBefore', counted[3] or 0)
if ARGV[9] ~= '' then redis.call('HSET', KEYS[1], 'deadlineAt', ARGV[9]) end
if ARGV[10] ~= '' then redis.call('HSET', KEYS[1], 'startBy', ARGV[10]) end
for _, key in ipairs({KEYS[1], KEYS[2], KEYS[5], KEYS[6]}) do redis.call('PERSIST', key) end
if last and last.t == 'closed' then redis.call('RPOP', KEYS[2]) end
redis.call('DEL', KEYS[3])
append(KEYS[3], ARGV[6], ARGV[7], KEYS[4], ARGV[8], ARGV[5], seq, {ARGV[4]})
return {2, segment}
