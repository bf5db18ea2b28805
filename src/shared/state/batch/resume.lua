--[[ Continues a batch that is paused, or waits with its quote.
KEYS[1] record   ARGV[1] milliseconds since the epoch
Returns {status before, number of the job to add or 0}, or 0 when there is none. ]]
-- include job-for
local status, before = unpack(redis.call('HMGET', KEYS[1], 'status', 'before'))
if not status then return 0 end
if status ~= 'paused' and status ~= 'quoted' then return {status, 0} end
local after = status == 'paused' and before or 'in_progress'
redis.call('HSET', KEYS[1], 'status', after, 'reason', '', 'failures', 0, 'since', ARGV[1])
if after == 'in_progress' then redis.call('HSETNX', KEYS[1], 'inProgressAt', ARGV[1]) end
return {status, jobFor(KEYS[1])}
