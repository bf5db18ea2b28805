--[[ Records for a parent that a child has ended: once for each child, also when it is repeated. When the parent is suspended,
its wait ends in the same step, or a later child begins, or it waits on; a running parent finds the end in its decisions. A
parent that has ended counts the cost; one that has failed may be redriven, and finds it then.
KEYS and ARGV[1] to [10] as in resume.lua; then ARGV[11] id of the child  [12] how it ended, as JSON  [13] its cost
ARGV[14] 1 when it has an answer
Returns {0} gone; {1} nothing to resume; {2, segment, last number, queue, kind, calls that are still pending} resumed, now or
by this very call before; {3, what later children have in common, what is its own} the next child begins.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include ../../append-events
-- include ../../stored-json
-- include ../waits/waiting-for
-- include ../../money/child-costs
-- include ../waits/end-wait
-- include later-runs
local run = redis.call('HMGET', KEYS[1], 'status', 'segment', 'op', 'lastSequence', 'queue', 'kind', 'epoch', 'pending',
  'resumes', 'endedAt', 'cancel')
local status, segment, op, last, queue, kind, epoch, pending, resumes, ended, cancel = unpack(run, 1, 11)
if not status then return {0} end
if op == ARGV[1] then return {2, tonumber(segment), tonumber(last), queue, kind, 0} end

local waiting = waitingFor(pending)
local isCancelled = cancel and cancel ~= ''
local isNew = redis.call('HSETNX', KEYS[1], 'ended:' .. ARGV[11], ARGV[13]) == 1
local group = status == 'suspended' and groupOf(segment)
local decides = group and group.first and ARGV[14] == '1'
local following = nil
if group and not isCancelled and not decides then following = followerOf(group, ARGV[11], isNew) end
if isNew and (not ended or status == 'failed') then
  local how = ARGV[12]
  if following then how = string.sub(how, 1, -2) .. ',"next":"' .. following.id .. '"}' end
  redis.call('RPUSH', KEYS[5], how)
  redis.call('EXPIRE', KEYS[5], ended and redis.call('TTL', KEYS[1]) or ARGV[10])
end
if ended then
  if isNew then addChildCost(ARGV[13]) end
  return {1}
end
if group and not decides then
  if isNew then
    waiting = withoutRun(waiting, ARGV[11], following, ARGV[3])
    redis.call('HSET', KEYS[1], 'pending', textsOf(waiting))
    addChildCost(ARGV[13])
    redis.call('HINCRBY', KEYS[7], 'counted', ARGV[13])
  end
  if following then return {3, group.template, following.own} end
  if hasChildren(waiting) then return {1} end
end
if status ~= 'suspended' or redis.call('LLEN', KEYS[5]) == 0 then return {1} end
local next, seq, left = endWait(segment, last, epoch, tonumber(resumes or 0), waiting)
return {2, next, seq, queue, kind, left}
