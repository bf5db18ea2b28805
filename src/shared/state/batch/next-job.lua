--[[ Numbers another job for a batch that has not ended. The process that has it now has lost it.
KEYS[1] record   ARGV[1] the number of the job that is known
Returns the new number, or 0 when another one was numbered since, or the batch has ended. ]]
-- include ended
local status, jobs = unpack(redis.call('HMGET', KEYS[1], 'status', 'jobs'))
if not status or endedStatus[status] or jobs ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'stay', '')
return redis.call('HINCRBY', KEYS[1], 'jobs', 1)
