--[[ Begins a stay: from now on only its owner changes lines of the batch.
KEYS[1] record   ARGV[1] nonce of the stay  [2] number of the job that brings it
Returns the record, or 0 when there is none, it has ended, or a later job has been made for it. ]]
-- include ended
local status, jobs = unpack(redis.call('HMGET', KEYS[1], 'status', 'jobs'))
if not status or endedStatus[status] then return 0 end
if tonumber(ARGV[2]) < tonumber(jobs) then return 0 end
redis.call('HSET', KEYS[1], 'stay', ARGV[1])
return redis.call('HGETALL', KEYS[1])
