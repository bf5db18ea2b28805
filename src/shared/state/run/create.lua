--[[ Creates runs with their first events, each unless it exists. In a Cluster one run per call.
KEYS run, journal, event log and claim of each run, then the lifecycle stream, in a Cluster the run's own
ARGV[1] event log length  [2] firehose channel  [3] publish command  [4] tenant  [5] ISO time
ARGV[6] the request that all of them were asked for with, or ''
then for each run: nonce of this call, hash of the request, live channel, run id, queue, request, agent, thread or '', job
kind, lineage or '', its parent or '', what lists show of the request, and of the lineage or '', number of
events, the events
Returns for each run {0, status, segment} created, now or by this very call before; {1, status, segment} it exists
with the same request; {2} it exists with another one. ]]
-- include ../append-events
local lifecycle = KEYS[#KEYS]

local function create(run, journal, log, claim, nonce, hash, live, id, queue, request, agent, thread, kind, lineage, parent,
    listed, listedParent, events)
  local known = redis.call('HMGET', run, 'nonce', 'bodyHash', 'status', 'segment')
  if known[1] == nonce then return {0, known[3], known[4]} end
  if known[2] == hash then return {1, known[3], known[4]} end
  if known[2] then return {2} end
  -- Inside a JSON string a quote is escaped, so only a real key can look like this.
  local hasId = string.find(request, '"executionId":', 1, true)
  local claimed = hasId and redis.call('HGET', claim, 'bodyHash')
  if claimed and claimed ~= hash then return {2} end

  -- What is the same for every new run is written here rather than sent with each call: bulk requests are mostly these bytes.
  redis.call('HSET', run, 'v', '1', 'status', 'queued', 'segment', '0', 'epoch', '0', 'crashes', '0', 'steps', '0',
    'costMicrocents', '0', 'attempts', '[]', 'pending', '[]', 'owner', '', 'held', '0', 'nonce', nonce, 'bodyHash', hash,
    'runId', id, 'tenant', ARGV[4], 'kind', kind, 'queue', queue, 'request', request, 'createdAt', ARGV[5],
    'updatedAt', ARGV[5], 'agent', agent, 'thread', thread, 'listedRequest', listed, 'lastSequence', #events)
  if ARGV[6] ~= '' then redis.call('HSET', run, 'requestId', ARGV[6]) end
  if lineage ~= '' then redis.call('HSET', run, 'parent', lineage, 'parentRunId', parent, 'listedParent', listedParent) end
  -- A run of the same execution id, whose record has expired, may have left these behind.
  if hasId then redis.call('DEL', journal, log, claim) end
  append(log, live, ARGV[2], lifecycle, ARGV[3], ARGV[1], 0, events)
  return {0, 'queued', '0'}
end

local results, at = {}, 7
for key = 1, #KEYS - #KEYS % 4, 4 do
  local count = tonumber(ARGV[at + 13])
  results[#results + 1] = create(KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3], ARGV[at], ARGV[at + 1],
    ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6], ARGV[at + 7], ARGV[at + 8], ARGV[at + 9], ARGV[at + 10],
    ARGV[at + 11], ARGV[at + 12], {unpack(ARGV, at + 14, at + 13 + count)})
  at = at + 14 + count
end
return results
