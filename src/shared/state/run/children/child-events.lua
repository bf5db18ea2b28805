--[[ Adds events of a child to the log of its parent. No worker writes there while the parent is suspended; while it runs the
events are kept, and enter the log with its next claim, or before the next events.
KEYS[1] run  KEYS[2] event log  KEYS[3] events that wait
ARGV[1] event log length  [2] live channel  [3] firehose channel  [4] publish command  [5] most events that wait
ARGV[6] seconds to keep these; then the events
Returns {0} the run is gone or has ended, {1} in the log, {2} kept. ]]
-- include ../../append-events
-- include ../../in-parts
local run = redis.call('HMGET', KEYS[1], 'status', 'endedAt', 'lastSequence')
if not run[1] or run[2] then return {0} end

local events = {}
for i = 7, #ARGV do events[#events + 1] = ARGV[i] end
if run[1] ~= 'suspended' then
  push('RPUSH', KEYS[3], events)
  redis.call('LTRIM', KEYS[3], -ARGV[5], -1)
  redis.call('EXPIRE', KEYS[3], ARGV[6])
  return {2}
end
local all = redis.call('LRANGE', KEYS[3], 0, -1)
for _, event in ipairs(events) do all[#all + 1] = event end
local top = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local seq = top and tonumber(string.match(top[1], '^%d+')) or tonumber(run[3])
redis.call('HSET', KEYS[1], 'lastSequence', append(KEYS[2], ARGV[2], ARGV[3], '', ARGV[4], ARGV[1], seq, all))
redis.call('DEL', KEYS[3])
return {1}
