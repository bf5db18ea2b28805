--[[ Asks for a grant: at once when there is room and no waiter is before it, otherwise the run joins the wait queue.
KEYS as in state   ARGV[1] requests  [2] tokens  [3] in flight, as configured, 0 unknown  [4] window in ms
[5] waiter  [6] grant id  [7] tenant  [8] weight  [9] tokens of the prompt  [10] most tokens of the answer
[11] ms that it can wait  [12] calls that were made without asking since the last time
Returns {0} no limit is known; {1, tokens, ms waited} granted; {2, ms to the next look} waiting; {3, ms expected} it would
take longer than that: the position is kept for a run that parks soon. A repeat answers like the first. ]]
-- include state
-- include window
-- include wait-queue
-- include grant
-- include schedule
local id, grant_id, max_wait, freed = ARGV[5], ARGV[6], tonumber(ARGV[11]), tonumber(ARGV[12])
if freed > 0 or not packed then begin() end
configure(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))
open_window()
if freed > 0 then add(bucket_of(now), freed, 0) end
local w = get(WAITERS, id)
if is_free() and not w then
  save()
  return { 0 }
end
begin()
sweep()
if redis.call('HEXISTS', GRANTS, grant_id) == 0 then
  w = get(WAITERS, id)
  if w then
    step_out(id, w)
  else
    state.order = state.order + 1
    w = { q = state.order, f = now }
  end
  w.t, w.w, w.p, w.o = ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
  w.k, w.g, w.l = 'local', grant_id, nil
  local promise = get(GRANTS, 'p:' .. id)
  w.h = promise and true or nil
  if promise then state.delay = state.delay + 0.2 * (math.min(2000, state.window / 4, now - promise.a) - state.delay) end
  enter(id, w)
end
local retry = dispatch()
local reply = answer(id, grant_id, retry)
w = get(WAITERS, id)
if reply[1] == 2 and not w.h then
  local expected = expected_wait(id, w)
  if expected > 1.25 * max_wait then
    stay_away(id, w, away_ms)
    reply = { 3, expected }
  end
end
save()
return reply
