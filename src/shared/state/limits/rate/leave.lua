--[[ Takes a run out of the wait queue, with what was promised to it.
KEYS as in state   ARGV[1] run   Returns 1 when it was there, else 0. ]]
-- include state
-- include window
-- include wait-queue
-- include grant
-- include schedule
local w, promise = get(WAITERS, ARGV[1]), get(GRANTS, 'p:' .. ARGV[1])
if not w and not promise then return 0 end
begin()
open_window()
if w then
  step_out(ARGV[1], w)
  redis.call('HDEL', WAITERS, ARGV[1])
  redis.call('ZREM', SEATS, ARGV[1])
end
if promise then undo('p:' .. ARGV[1], promise) end
redis.call('LREM', WAKE, 0, ARGV[1])
sweep()
dispatch()
save()
return 1
