--[[ Takes the runs that have to be woken for their turn.
KEYS as in governor-state   Returns how many runs are in line or about to come, then the ids. ]]
-- include governor-state
-- include governor-window
-- include governor-line
-- include governor-grant
-- include governor-dispatch
begin()
open_window()
sweep()
dispatch()
local woken = redis.call('LPOP', WAKE, 1000) or {}
table.insert(woken, 1, redis.call('HLEN', WAITERS))
save()
return woken
