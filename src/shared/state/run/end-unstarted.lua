--[[ Ends a queued run that no worker has begun, or that was redriven and waits for its thread.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, in a Cluster the run's own
KEYS[5] decisions that the journal does not have  KEYS[6] all decisions
ARGV[1] nonce of this call  [2] 1 for one that has begun before, too  [3] ISO time  [4] status  [5] error as JSON
ARGV[6] last event  [7] seconds to keep the run  [8] seconds to keep its events
ARGV[9] seconds that it may wait for the archive, 0: it is not archived
ARGV[10] event log length  [11] live channel  [12] firehose channel  [13] publish command
Returns the number of the last event, now or by this very call before; -1 when there is no such run, it has ended or has begun.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include ../append-events
-- include keep-ended
local run = redis.call('HMGET', KEYS[1], 'status', 'epoch', 'held', 'op', 'lastSequence')
local status, epoch, held, op, last = unpack(run, 1, 5)
if op == ARGV[1] then return tonumber(last) end
if status ~= 'queued' or held == '1' or (epoch ~= '0' and ARGV[2] ~= '1') then return -1 end

local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(last)
seq = append(KEYS[3], ARGV[11], ARGV[12], KEYS[4], ARGV[13], ARGV[10], seq, {ARGV[6]})
redis.call('HSET', KEYS[1], 'status', ARGV[4], 'error', ARGV[5], 'op', ARGV[1], 'owner', '', 'pending', '[]',
  'endedAt', ARGV[3], 'updatedAt', ARGV[3], 'lastSequence', seq)
keepEnded({KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6]}, ARGV[7], ARGV[8], ARGV[9], false)
return seq
