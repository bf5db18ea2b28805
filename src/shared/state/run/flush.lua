--[[ Adds events alone to the logs of several runs. The numbers are the fence: a claim always adds an event, so the next
number of a writer that was overtaken is taken.
KEYS[1] to KEYS[n] event logs  KEYS[n + 1] lifecycle stream, in a Cluster the run's own
KEYS[n + 2] audit stream, in a Cluster the run's own; only with events that are audited, which are of one run
ARGV[1] n  [2] event log length  [3] firehose channel  [4] publish command
then for each run: live channel, last number given, number of events, the events
Returns for each run 1 written, now or by this very flush before; 0 fenced; or the error of Redis as a string. ]]
-- include ../append-events
local runs = tonumber(ARGV[1])
local lifecycle, audit = KEYS[runs + 1], KEYS[runs + 2]

local function flush(stream, live, seq, events)
  local ok, result = pcall(append, stream, live, ARGV[3], lifecycle, ARGV[4], ARGV[2], seq, events, true, audit)
  if ok then return result and 1 or 0 end
  local id = (seq + 1) .. '-0'
  local entry = redis.pcall('XRANGE', stream, id, '+', 'COUNT', 1)[1]
  -- Nothing at or after this number: it is not taken, the write failed for another reason.
  if not entry then return type(result) == 'table' and result.err or tostring(result) end
  return (entry[1] == id and entry[2][2] == numbered(events[1], seq + 1)) and 1 or 0
end

local results, at = {}, 5
for run = 1, runs do
  local live, seq, count = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local events = {}
  for i = at + 3, at + 2 + count do events[#events + 1] = ARGV[i] end
  results[run] = flush(KEYS[run], live, seq, events)
  at = at + 3 + count
end
return results
