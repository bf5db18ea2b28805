--[[ Ends the wait of a suspended run: queued at its next segment in the same queue, with the event that says so.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, absent in a Cluster
ARGV[1] nonce of this call  [2] the segment that it has to be at, '' for any  [3] ISO time  [4] run.resumed event
ARGV[5] event log length  [6] live channel  [7] firehose channel  [8] publish command; the journal entries follow
Returns {0} not suspended, or at another segment; {1, segment, last number, queue, kind} queued, now or by this very
call before.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include append-events
local run = redis.call('HMGET', KEYS[1], 'status', 'segment', 'op', 'lastSequence', 'queue', 'kind', 'epoch')
local status, segment, op, last, queue, kind = unpack(run)
if not status then return {0} end
if op == ARGV[1] then return {1, tonumber(segment), tonumber(last), queue, kind} end
if status ~= 'suspended' or (ARGV[2] ~= '' and ARGV[2] ~= segment) then return {0} end

-- Delta flushes do not touch the record: the log itself knows the last number.
local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(last)
seq = append(KEYS[3], ARGV[6], ARGV[7], KEYS[4] or '', ARGV[8], ARGV[5], seq, {ARGV[4]})
for i = 9, #ARGV do redis.call('RPUSH', KEYS[2], ARGV[i]) end
redis.call('HSET', KEYS[1], 'status', 'queued', 'segment', tonumber(segment) + 1, 'op', ARGV[1], 'pending', '[]',
  'owner', '', 'held', '0', 'updatedAt', ARGV[3], 'lastSequence', seq, 'resumedEpoch', run[7])
redis.call('HINCRBY', KEYS[1], 'resumes', 1)
return {1, tonumber(segment) + 1, seq, queue, kind}
