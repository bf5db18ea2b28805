--[[ Forgets an ended run.
KEYS[1] run; the others are what else belongs to it
Returns 0 there is none, 1 it has not ended, 2 it is gone. ]]
local run = redis.call('HMGET', KEYS[1], 'status', 'endedAt')
if not run[1] then return 0 end
if not run[2] then return 1 end
redis.call('DEL', unpack(KEYS))
return 2
