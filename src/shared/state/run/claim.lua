--[[ Gives a run to one processor call, in one step with the events about that.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, in a Cluster the run's own
KEYS[8] events of its children that came while it was running: they enter the log here, before those of the claim
ARGV[1] owner  [2] worker  [3] queue  [4] segment  [5] job try  [6] crash limit  [7] blame limit  [8] its first activity
ARGV[9] a worker whose loss is not this run's doing, or ''  [10] ISO time
ARGV[11] event log length  [12] live channel  [13] firehose channel  [14] publish command
ARGV[15] digest of the agent's definition, for a run that has none yet, or ''
ARGV[16] number of opening events; these follow, then the recovering events
Returns {0} gone, {1, status} terminal, {2} stale, {3, crashes} crashed too often,
{4, record fields as found, record fields changed, journal entries} claimed.
The same owner asking again changes nothing and gets the same answer. ]]
-- include ../append-events
local found, run = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #found, 2 do run[found[i]] = found[i + 1] end

if #found == 0 then return {0} end
if run.endedAt then return {1, run.status} end
if run.owner == ARGV[1] then return {4, found, {}, redis.call('LRANGE', KEYS[2], 0, -1)} end

local segment, try = tonumber(ARGV[4]), tonumber(ARGV[5])
local lastSegment, lastTry = tonumber(run.claimSegment) or -1, tonumber(run.claimTry) or -1
-- Only what ends its wait queues a suspended run again; its old job may be delivered once more.
if run.status == 'suspended' or segment < tonumber(run.segment) or segment < lastSegment or (segment == lastSegment and try < lastTry) then return {2} end

-- A worker that releases a run clears `held`. A run that is still held lost its worker: its activity shows how much it is to
-- blame. One that waited for another suspect is not, and some losses have another cause.
local unclean, activity = run.held == '1', run.activity or 'idle'
local crashes, blame, excuses = tonumber(run.crashes), tonumber(run.blame) or 0, tonumber(run.excuses) or 0
if unclean and run.worker == ARGV[9] then
  if activity == 'calls' then excuses = excuses + 1 end
elseif unclean and activity ~= 'waiting' then
  crashes, blame = crashes + 1, blame + (({ watched = 2, calls = 1 })[activity] or 0)
end
if crashes >= tonumber(ARGV[6]) or blame >= tonumber(ARGV[7]) then
  if unclean then
    redis.call('HSET', KEYS[1], 'crashes', crashes, 'blame', blame, 'activity', 'idle', 'held', '0', 'owner', '')
  end
  return {3, crashes}
end

local opening, first = tonumber(ARGV[16]), run.epoch == '0'
local events = first and {} or redis.call('LRANGE', KEYS[8], 0, -1)
for i = first and 17 or 17 + opening, first and 16 + opening or #ARGV do events[#events + 1] = ARGV[i] end
-- Delta flushes do not touch the record: the log itself knows the last number.
local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(run.lastSequence)
seq = append(KEYS[3], ARGV[12], ARGV[13], KEYS[4], ARGV[14], ARGV[11], seq, events)
if not first then redis.call('DEL', KEYS[8]) end

local changed = {
  'owner', ARGV[1], 'held', '1', 'status', 'running', 'epoch', tonumber(run.epoch) + 1, 'crashes', crashes,
  'blame', blame, 'excuses', excuses, 'activity', ARGV[8], 'worker', ARGV[2], 'queue', ARGV[3], 'claimSegment', segment, 'claimTry', try,
  'unclean', unclean and '1' or '0', 'previousWorker', run.worker or '',
  'startedAt', run.startedAt or ARGV[10], 'updatedAt', ARGV[10], 'lastSequence', seq,
}
if ARGV[15] ~= '' and not run.definition then
  changed[#changed + 1] = 'definition'
  changed[#changed + 1] = ARGV[15]
end
redis.call('HSET', KEYS[1], unpack(changed))
return {4, found, changed, first and {} or redis.call('LRANGE', KEYS[2], 0, -1)}
