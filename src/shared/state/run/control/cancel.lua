--[[ Asks a run to stop, and ends it at once when no worker is needed. Otherwise its worker sees the request and ends it in its
last commit (worker/run/settle.ts).
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] lifecycle stream, in a Cluster the run's own
KEYS[5] decisions that the journal does not have  KEYS[6] all decisions  KEYS[7] children that begin later
ARGV[1] nonce of this call  [2] cancel request  [3] its onPendingApprovals  [4] ISO time
ARGV[5] run.cancelled and [6] run.failed event, both cut off before their usage  [7] error of the latter
ARGV[8] usage of a run that has none  [9] seconds to keep the run  [10] seconds to keep its events
ARGV[11] event log length  [12] live channel  [13] firehose channel  [14] publish command
ARGV[15] agent.cancelling event  [16] tool.approval.denied event, cut off before its call  [17] why calls are denied
ARGV[18] usage.recorded event, cut off before its usage  [19] agent.end and [20] agent.error event  [21] node.failed event, or ''
ARGV[22] seconds that the run may wait for the archive, 0: it is not archived
Returns {0} gone, {1} ended before, {2} ended here, now or by this very call before,
{3, request in force} asked, also of a parent, or of a run that has begun in a thread, {4} it waits on for people, who may still decide.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include ../../append-events
-- include ../../stored-json
-- include ../keep-ended
-- include ../waits/waiting-for
local run = redis.call('HMGET', KEYS[1], 'status', 'endedAt', 'held', 'op', 'cancel', 'usage', 'costMicrocents',
  'pending', 'lastSequence', 'thread', 'epoch', 'childCostMicrocents', 'steps', 'toolCalls', 'holdsMoney')
local status, ended, held, op, asked, usage, cost, pending, last, thread, epoch, childCost, steps, toolCalls, holds =
  unpack(run, 1, 15)

if not status then return {0} end
local calls, waits, isParent = {}, false, false
for _, item in ipairs((status == 'suspended' or status == 'queued') and waitingFor(pending) or {}) do
  if people[item.kind] then calls[#calls + 1] = item end
  waits = waits or #calls > 0 or item.kind == 'budget'
  isParent = isParent or item.kind == 'child'
end
local fails = (waits and ARGV[3] == 'fail') or status == 'failed'
local spent = ',"usage":' .. (usage or ARGV[8]) .. ',"costMicrocents":' .. (cost or '0')
local event = ARGV[fails and 6 or 5] .. spent .. '}'
if op == ARGV[1] then return ended and {2} or {4} end
if ended then return {1} end

-- A parent ends after its children, so that it knows what they cost; when the end of a child has just queued it, only its journal
-- has what that one used. A run that has begun in a thread writes its result there. One that holds money for a closing call gives
-- it back. All of these need a worker to end.
local needsWorker = isParent or holds or (status == 'queued' and childCost) or ((thread or '') ~= '' and epoch ~= '0')
-- One that is suspended and waits on needs none.
local waitsOn = waits and ARGV[3] == 'hold' and (not needsWorker or (status == 'suspended' and not isParent))
if status == 'running' or held == '1' or (needsWorker and not waitsOn) then
  -- The first request counts; only one that stops at once overrides one that lets the step finish.
  local before = decoded(asked)
  if before and not (before.drain == true and not cjson.decode(ARGV[2]).drain) then return {3, asked} end
  redis.call('HSET', KEYS[1], 'cancel', ARGV[2])
  return {3, ARGV[2]}
end

local function emit(events)
  local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
  local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(last)
  return append(KEYS[3], ARGV[12], ARGV[13], KEYS[4], ARGV[14], ARGV[11], seq, events)
end
if waitsOn then
  redis.call('HSET', KEYS[1], 'op', ARGV[1], 'lastSequence', emit({ARGV[15]}))
  return {4}
end

-- A run that no worker has begun has no events of an agent.
local hasBegun = epoch ~= '0'
local events, decisions, why = hasBegun and {ARGV[15]} or {}, {}, cjson.encode(ARGV[17])
for _, item in ipairs(fails and {} or calls) do
  local id = cjson.encode(item.id)
  events[#events + 1] = ARGV[16] .. ',"toolCallId":' .. id .. ',"toolName":' .. cjson.encode(item.toolName or '') ..
    ',"reason":' .. why .. '}'
  decisions[#decisions + 1] = '{"kind":"approval","id":' .. id .. ',"granted":false,"reason":' .. why ..
    ',"at":"' .. ARGV[4] .. '"}'
end
if hasBegun then
  events[#events + 1] = ARGV[18] .. spent .. ',"steps":' .. (steps or '0') .. ',"toolCalls":' .. (toolCalls or '0') .. '}'
  events[#events + 1] = ARGV[fails and 20 or 19]
  if fails and ARGV[21] ~= '' then events[#events + 1] = ARGV[21] end
end
events[#events + 1] = event
local seq = emit(events)
if #decisions > 0 then
  local list = table.concat(decisions, ',')
  redis.call('RPUSH', KEYS[2], '{"v":1,"t":"decided","at":"' .. ARGV[4] .. '","decisions":[' .. list .. ']}')
end
redis.call('HSET', KEYS[1], 'status', fails and 'failed' or 'cancelled', 'op', ARGV[1], 'owner', '', 'pending', '[]',
  'endedAt', ARGV[4], 'updatedAt', ARGV[4], 'lastSequence', seq)
if fails then redis.call('HSET', KEYS[1], 'error', ARGV[7]) end
keepEnded({KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6]}, ARGV[9], ARGV[10], ARGV[22], false)
return {2}
