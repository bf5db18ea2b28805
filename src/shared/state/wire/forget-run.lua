--[[ Forgets an ended run.
KEYS[1] run; the others are what else belongs to it
ARGV[1] the segment that it ended in, or '' for any
Returns 0 there is none, 1 it has not ended, or was redriven since, 2 it is gone. ]]
local run = redis.call('HMGET', KEYS[1], 'status', 'endedAt', 'segment')
if not run[1] then return 0 end
if not run[2] or ARGV[1] ~= '' and run[3] and run[3] ~= ARGV[1] then return 1 end
redis.call('DEL', unpack(KEYS))
return 2
