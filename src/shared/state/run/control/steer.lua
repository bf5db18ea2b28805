--[[ Adds a message of the user to the inbox of a running run, once. The run reads it before its next step.
KEYS[1] run  KEYS[2] inbox   ARGV[1] id of the message  [2] the message  [3] most that wait  [4] seconds to keep them
Returns 1 added, now or before; 0 too late, too early, or no such run; -1 too many wait. ]]
local run = redis.call('HMGET', KEYS[1], 'status', 'endedAt', 'cancel', 'inbox:' .. ARGV[1], 'epoch')
if run[4] then return 1 end
-- One that has not begun may still be cancelled without a worker, and then no run would read it.
if not run[1] or run[2] or (run[3] and run[3] ~= '') or run[5] == '0' then return 0 end
if redis.call('LLEN', KEYS[2]) >= tonumber(ARGV[3]) then return -1 end
redis.call('HSET', KEYS[1], 'inbox:' .. ARGV[1], '1')
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return 1
