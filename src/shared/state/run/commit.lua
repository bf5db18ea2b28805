--[[ Writes journal entries, events and record fields under the ownership: all of it, or nothing.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, in a Cluster the run's own
KEYS[5] decisions that the journal does not have  KEYS[6] all decisions
KEYS[9] audit stream, in a Cluster the run's own; only with events that are audited
ARGV[1] owner  [2] operation id  [3] last number given  [4] 1 when this ends the run, 3 when its
journal is not needed then, 2 when this answers a cancel with `hold`, else 0
ARGV[5] seconds to keep an ended run  [6] the same for a run with an execution id  [7] seconds to keep its events
ARGV[8] seconds that an ended run may wait for the archive, 0: it is not archived
ARGV[9] event log length  [10] live channel  [11] firehose channel  [12] publish command
ARGV[13] number of field and value strings  [14] number of journal entries; both follow in this order, then the events
Returns {0} fenced, {1, last number, cancel request or ''} written, now or by the same operation before.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include ../append-events
-- include ../in-parts
-- include ../money/child-costs
-- include keep-ended
local function arguments(from, count)
  local list = {}
  for i = from, from + count - 1 do list[#list + 1] = ARGV[i] end
  return list
end

local ends = ARGV[4] == '1' or ARGV[4] == '3'
-- The request can be large and only the retention needs it: otherwise a short field is read.
local run = redis.call('HMGET', KEYS[1], 'owner', 'op', 'endedAt', 'cancel', ends and 'request' or 'op')
local owner, op, ended, cancel, request = run[1], run[2], run[3], run[4] or '', run[5]

local fields = arguments(15, tonumber(ARGV[13]))
local entries = arguments(15 + #fields, tonumber(ARGV[14]))
local events = arguments(15 + #fields + #entries, #ARGV - 14 - #fields - #entries)

if op == ARGV[2] then return {1, tonumber(ARGV[3]) + #events, cancel} end
if owner ~= ARGV[1] or ended then return {0} end

local seq = append(KEYS[3], ARGV[10], ARGV[11], KEYS[4], ARGV[12], ARGV[9], ARGV[3], events, false, KEYS[9])
push('RPUSH', KEYS[2], entries)
redis.call('HSET', KEYS[1], 'op', ARGV[2], 'lastSequence', seq, unpack(fields))
-- Inside a JSON string a quote is escaped, so only a real key can look like this.
if ARGV[4] == '2' and string.find(cancel, '"onPendingApprovals":"hold"', 1, true) then
  redis.call('HDEL', KEYS[1], 'cancel')
  cancel = ''
end
if ends then
  -- The worker that ends the run does not know these.
  addChildCosts(redis.call('LRANGE', KEYS[5], 0, -1))
  local keep = string.find(request, '"executionId":', 1, true) and ARGV[6] or ARGV[5]
  keepEnded({KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6]}, keep, ARGV[7], ARGV[8], ARGV[4] == '3')
end
return {1, seq, cancel}
