--[[ Gives a run to one processor call, in one step with the events that say so.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, absent in a Cluster
ARGV[1] owner  [2] worker  [3] queue  [4] segment  [5] job try  [6] crash limit  [7] ISO time
ARGV[8] event log length  [9] live channel  [10] firehose channel  [11] publish command
ARGV[12] number of opening events; these follow, then the recovering events
Returns {0} gone, {1, status} terminal, {2} stale, {3, crashes} crashed too often,
{4, record fields as found, record fields changed, journal entries} claimed.
The same owner asking again changes nothing and gets the same answer. ]]
-- include append-events
local found, run = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #found, 2 do run[found[i]] = found[i + 1] end

if #found == 0 then return {0} end
if run.endedAt then return {1, run.status} end
if run.owner == ARGV[1] then return {4, found, {}, redis.call('LRANGE', KEYS[2], 0, -1)} end

local segment, try = tonumber(ARGV[4]), tonumber(ARGV[5])
local lastSegment, lastTry = tonumber(run.claimSegment) or -1, tonumber(run.claimTry) or -1
-- A suspended run goes on only by what ends its wait, which queues it again; its old job may be delivered once more.
if run.status == 'suspended' or segment < tonumber(run.segment) or segment < lastSegment or (segment == lastSegment and try < lastTry) then return {2} end

-- Whoever lets go says so. A run that is still held was left behind by a crash or a lost lock.
local unclean = run.held == '1'
local crashes = tonumber(run.crashes) + (unclean and 1 or 0)
if crashes >= tonumber(ARGV[6]) then
  if unclean then redis.call('HSET', KEYS[1], 'crashes', crashes, 'held', '0', 'owner', '') end
  return {3, crashes}
end

local opening, first = tonumber(ARGV[12]), run.epoch == '0'
local events = {}
for i = first and 13 or 13 + opening, first and 12 + opening or #ARGV do events[#events + 1] = ARGV[i] end
-- Delta flushes do not touch the record: the log itself knows the last number.
local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(run.lastSequence)
seq = append(KEYS[3], ARGV[9], ARGV[10], KEYS[4] or '', ARGV[11], ARGV[8], seq, events)

local changed = {
  'owner', ARGV[1], 'held', '1', 'status', 'running', 'epoch', tonumber(run.epoch) + 1, 'crashes', crashes,
  'worker', ARGV[2], 'queue', ARGV[3], 'claimSegment', segment, 'claimTry', try,
  'unclean', unclean and '1' or '0', 'previousWorker', run.worker or '',
  'startedAt', run.startedAt or ARGV[7], 'updatedAt', ARGV[7], 'lastSequence', seq,
}
redis.call('HSET', KEYS[1], unpack(changed))
return {4, found, changed, first and {} or redis.call('LRANGE', KEYS[2], 0, -1)}
