--[[ Creates a run with its first events, unless it exists.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, absent in a Cluster
ARGV[1] nonce of this call  [2] hash of the request
ARGV[3] event log length  [4] live channel  [5] firehose channel  [6] publish command
ARGV[7] run id  [8] tenant  [9] job kind  [10] queue  [11] request  [12] ISO time  [13] agent  [14] thread or ''
ARGV[15] and following: the events
Returns {0, status, segment} created, now or by this very call before; {1, status, segment} there already with the same
request; {2} there already with another one. ]]
-- include append-events
local known = redis.call('HMGET', KEYS[1], 'nonce', 'bodyHash', 'status', 'segment')
if known[3] then
  if known[1] == ARGV[1] then return {0, known[3], known[4]} end
  if known[2] == ARGV[2] then return {1, known[3], known[4]} end
  return {2}
end

-- What is the same for every new run stands here rather than in each call: bulk requests are mostly these bytes.
redis.call('HSET', KEYS[1], 'v', '1', 'status', 'queued', 'segment', '0', 'epoch', '0', 'crashes', '0', 'steps', '0',
  'costMicrocents', '0', 'attempts', '[]', 'pending', '[]', 'owner', '', 'held', '0', 'nonce', ARGV[1],
  'bodyHash', ARGV[2], 'runId', ARGV[7], 'tenant', ARGV[8], 'kind', ARGV[9], 'queue', ARGV[10], 'request', ARGV[11],
  'createdAt', ARGV[12], 'updatedAt', ARGV[12], 'agent', ARGV[13], 'thread', ARGV[14], 'lastSequence', #ARGV - 14)
-- A run of the same execution id, whose record has expired, may have left these behind.
redis.call('DEL', KEYS[2], KEYS[3])
append(KEYS[3], ARGV[4], ARGV[5], KEYS[4] or '', ARGV[6], ARGV[3], 0, {unpack(ARGV, 15)})
return {0, 'queued', '0'}
