--[[ Asks a run to stop, and ends it at once when nobody works on it.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, absent in a Cluster
ARGV[1] nonce of this call  [2] cancel request  [3] its onPendingApprovals  [4] ISO time
ARGV[5] run.cancelled and [6] run.failed event, both cut off before their usage  [7] error of the latter
ARGV[8] usage of a run that has none  [9] seconds to keep the run  [10] seconds to keep its events
ARGV[11] event log length  [12] live channel  [13] firehose channel  [14] publish command
Returns {0} gone, {1} ended before, {2, last number, event} ended here, now or by this very call before,
{3, request in force} asked, {4} stays suspended: its open questions are to be held. ]]
-- include append-events
local run = redis.call('HMGET', KEYS[1], 'status', 'endedAt', 'held', 'op', 'cancel', 'usage', 'costMicrocents', 'pending', 'lastSequence')
local status, ended, held, op, asked, usage, cost, pending = unpack(run, 1, 8)

if not status then return {0} end
local people, waits = { approval = true, budget = true, user_input = true, unknown_outcome = true }, false
for _, item in ipairs(status == 'suspended' and pending and cjson.decode(pending) or {}) do
  waits = waits or people[item.kind]
end
local fails = (waits and ARGV[3] == 'fail') or status == 'failed'
local event = ARGV[fails and 6 or 5] .. ',"usage":' .. (usage or ARGV[8]) .. ',"costMicrocents":' .. cost .. '}'
if op == ARGV[1] then return {2, tonumber(run[9]), event} end
if ended then return {1} end

if status == 'running' or held == '1' then
  -- The first request holds; only one that stops at once overrides one that lets the step finish.
  if asked and not (cjson.decode(asked).drain and not cjson.decode(ARGV[2]).drain) then return {3, asked} end
  redis.call('HSET', KEYS[1], 'cancel', ARGV[2])
  return {3, ARGV[2]}
end

if waits and ARGV[3] == 'hold' then return {4} end
local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(run[9])
seq = append(KEYS[3], ARGV[12], ARGV[13], KEYS[4] or '', ARGV[14], ARGV[11], seq, {event})
redis.call('HSET', KEYS[1], 'status', fails and 'failed' or 'cancelled', 'op', ARGV[1], 'owner', '', 'pending', '[]',
  'endedAt', ARGV[4], 'updatedAt', ARGV[4], 'lastSequence', seq)
if fails then redis.call('HSET', KEYS[1], 'error', ARGV[7]) end
redis.call('EXPIRE', KEYS[1], ARGV[9])
redis.call('EXPIRE', KEYS[2], ARGV[9])
redis.call('EXPIRE', KEYS[3], ARGV[10])
return {2, seq, event}
