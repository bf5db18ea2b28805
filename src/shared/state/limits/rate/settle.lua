--[[ Ends a grant: corrects the estimate in the sub-bucket that it was taken from, releases its permit, learns.
KEYS as in state   ARGV[1] to [4] as in ask  [5] grant id, '' for a call without one  [6] its age in ms
[7] tokens used, [8] of the answer; -1 not known  [9] 1 when it was never sent  [10] 1 when it was refused
[11] retry-after in ms, -1 none  [12] calls made without asking since the last time
[13] to [15] limit, remaining, reset in ms for requests, [16] to [18] for tokens; -1 not known
Returns {ms of a cooldown that begins now, else 0; requests and tokens per minute as reported, learnt requests per window,
0 for none}, all rounded. A repeat corrects nothing twice. ]]
-- include state
-- include window
-- include wait-queue
-- include grant
-- include schedule
-- include learn
begin()
local arg = {}
for i = 1, #ARGV do arg[i] = tonumber(ARGV[i]) end
configure(arg[1], arg[2], arg[3], arg[4])
open_window()
sweep()
if arg[12] > 0 then add(bucket_of(now), arg[12], 0) end
local g = get(GRANTS, ARGV[5])
local since = g and g.a or now - arg[6]
if g and arg[9] == 1 then
  undo(ARGV[5], g)
elseif g then
  -- A refused call costs a request, but no tokens; where an answer broke off, the estimate stays.
  local used = arg[10] == 1 and math.max(0, arg[7]) or arg[7]
  local more = used >= 0 and used - g.n or 0
  add(g.b, 0, more)
  pay(0, more)
  spend(g.t, more / g.w)
  drop_grant(ARGV[5])
  if arg[10] == 0 then learn_answer(g, arg[7], arg[8]) end
end
local calm = now >= state.coolUntil
learn_report(since, unpack(arg, 13, 18))
local cooled = 0
if arg[10] == 1 then
  cooled = learn_refusal(since, calm, g, arg[11]) and state.coolUntil - now or 0
elseif g and since >= state.coolUntil then
  state.streak = 0
  if state.rate > 0 then state.rate = state.rate + 0.05 end
end
dispatch()
save()
return { math.ceil(cooled), math.floor(state.seenRequests), math.floor(state.seenTokens), math.floor(state.rate) }
