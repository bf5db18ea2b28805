--[[ Gives a run that waited for its thread, and has no job, a new segment, so that a job can be added.
KEYS[1] run   ARGV[1] ISO time
Returns {segment, queue, kind}; {} when there is no such run or it is not queued: then it needs no job. ]]
local run = redis.call('HMGET', KEYS[1], 'status', 'segment', 'queue', 'kind')
if run[1] ~= 'queued' then return {} end
local segment = tonumber(run[2]) + 1
redis.call('HSET', KEYS[1], 'segment', segment, 'updatedAt', ARGV[1])
return {segment, run[3], run[4]}
