--[[ Ends a wait that took too long. The position is kept for a while.
KEYS as in state   ARGV[1] waiter  [2] grant id
Returns {1, tokens, ms waited} when it was granted meanwhile, else {3, ms expected}. ]]
-- include state
-- include window
-- include wait-queue
-- include grant
-- include schedule
begin()
open_window()
sweep()
local reply = answer(ARGV[1], ARGV[2], 0)
if reply[1] ~= 1 then
  local w = reply[1] == 2 and get(WAITERS, ARGV[1])
  reply = { 3, w and expected_wait(ARGV[1], w) or 0 }
  if w then
    local promise = w.h and get(GRANTS, 'p:' .. ARGV[1])
    stay_away(ARGV[1], w, away_ms)
    if promise then undo('p:' .. ARGV[1], promise) end
  end
end
dispatch()
save()
return reply
