--[[ Begins the end of a batch: its open runs are stopped, and no further line runs.
KEYS[1] record   ARGV[1] milliseconds since the epoch
Returns {status before, number of the job to add or 0}, or 0 when there is none. ]]
-- include ended
-- include job-for
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return 0 end
if endedStatus[status] or status == 'cancelling' or status == 'finalizing' then return {status, 0} end
redis.call('HSET', KEYS[1], 'status', 'cancelling', 'ending', 'cancelled', 'reason', '', 'cancellingAt', ARGV[1])
return {status, jobFor(KEYS[1])}
