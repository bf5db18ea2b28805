--[[ Adds a run that waits without a worker to the wait queue. One that is there keeps its position; one that was woken, and
did not come, is woken again.
KEYS as in state   ARGV[1] to [4] as in ask  [5] run  [6] tenant  [7] weight  [8] tokens of the prompt
[9] most tokens of the answer   Returns 1. ]]
-- include state
-- include window
-- include wait-queue
-- include grant
-- include schedule
begin()
configure(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))
open_window()
sweep()
local id = ARGV[5]
if redis.call('HEXISTS', GRANTS, 'p:' .. id) == 1 then
  if not redis.call('LPOS', WAKE, id) then redis.call('RPUSH', WAKE, id) end
else
  local w = get(WAITERS, id)
  if w then
    step_out(id, w)
  else
    state.order = state.order + 1
    w = { q = state.order, f = now }
  end
  w.t, w.w, w.p, w.o = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
  w.k, w.h, w.g, w.l = 'parked', nil, nil, nil
  enter(id, w)
end
dispatch()
save()
return 1
