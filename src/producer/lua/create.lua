--[[ Creates a run with its first events, unless it exists.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, absent in a Cluster
ARGV[1] nonce of this call  [2] hash of the request  [3] event log length  [4] live channel  [5] firehose channel
ARGV[6] publish command  [7] number of field and value strings; these follow, then the events
Returns {0, status, segment} created, now or by this very call before; {1, status, segment} there already with the same
request; {2} there already with another one. ]]
-- include append-events
local known = redis.call('HMGET', KEYS[1], 'nonce', 'bodyHash', 'status', 'segment')
if known[3] then
  if known[1] == ARGV[1] then return {0, known[3], known[4]} end
  if known[2] == ARGV[2] then return {1, known[3], known[4]} end
  return {2}
end

local last = 7 + tonumber(ARGV[7])
redis.call('HSET', KEYS[1], 'nonce', ARGV[1], 'bodyHash', ARGV[2], unpack(ARGV, 8, last))
-- A run of the same execution id, whose record has expired, may have left these behind.
redis.call('DEL', KEYS[2], KEYS[3])
local events = {}
for i = last + 1, #ARGV do events[#events + 1] = ARGV[i] end
append(KEYS[3], ARGV[4], ARGV[5], KEYS[4] or '', ARGV[6], ARGV[3], 0, events)
return {0, 'queued', '0'}
