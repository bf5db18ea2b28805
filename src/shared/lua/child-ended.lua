--[[ Tells a run that another one, which works for it, has ended: once for each, however often it is told. When the run is
suspended its wait ends in the same step; otherwise the worker finds it. One that has ended itself only counts the cost.
KEYS and ARGV[1] to [10] as in resume.lua; then ARGV[11] id of the other run  [12] how it ended, as JSON  [13] its cost
Returns {0} gone; {1} nothing to resume; {2, segment, last number, queue, kind, calls that are still pending} resumed, now or
by this very call before. ]]
-- include append-events
-- include json-elements
-- include end-wait
local run = redis.call('HMGET', KEYS[1], 'status', 'segment', 'op', 'lastSequence', 'queue', 'kind', 'epoch', 'pending',
  'resumes', 'endedAt')
local status, segment, op, last, queue, kind, epoch, pending, resumes, ended = unpack(run, 1, 10)
if not status then return {0} end
if op == ARGV[1] then return {2, tonumber(segment), tonumber(last), queue, kind, 0} end

local isNew = redis.call('HSETNX', KEYS[1], 'ended:' .. ARGV[11], ARGV[13]) == 1
if ended then
  if isNew then
    redis.call('HINCRBY', KEYS[1], 'costMicrocents', ARGV[13])
    redis.call('HINCRBY', KEYS[1], 'childCostMicrocents', ARGV[13])
  end
  return {1}
end
if isNew then
  redis.call('RPUSH', KEYS[4], ARGV[12])
  redis.call('EXPIRE', KEYS[4], ARGV[10])
end
if status ~= 'suspended' or redis.call('LLEN', KEYS[4]) == 0 then return {1} end
local following, seq, left = endWait(segment, last, epoch, tonumber(resumes or 0), pending or '[]')
return {2, following, seq, queue, kind, left}
