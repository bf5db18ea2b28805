--[[ Takes the runs that have to be woken for their turn.
KEYS as in state   Returns how many runs wait or are about to come, then the ids. ]]
-- include state
-- include window
-- include wait-queue
-- include grant
-- include schedule
begin()
open_window()
sweep()
dispatch()
local woken = redis.call('LPOP', WAKE, 1000) or {}
table.insert(woken, 1, redis.call('HLEN', WAITERS))
save()
return woken
