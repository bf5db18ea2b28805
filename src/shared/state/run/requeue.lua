--[[ Gives a run that has not ended a new segment in a queue, so that a new job can be made for it.
KEYS[1] run hash   ARGV[1] the segment it is thought to be at   ARGV[2] queue   ARGV[3] now as ISO time
Returns the new segment; -1 when there is no such run or it has ended; -2 when it is at another segment. ]]
local run = redis.call('HMGET', KEYS[1], 'status', 'segment')
local ended = { completed = true, degraded = true, blocked = true, failed = true, cancelled = true }
if not run[1] or ended[run[1]] then return -1 end
if run[2] ~= ARGV[1] then return -2 end
local segment = tonumber(ARGV[1]) + 1
redis.call('HSET', KEYS[1], 'segment', segment, 'queue', ARGV[2], 'status', 'queued', 'owner', '', 'held', '0', 'activity', 'idle',
  'updatedAt', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'requeues', 1)
return segment
