--[[ Fragment, after schedule: what is learnt from answers and refusals. ]]
local function closer(old, new, step) return old + step * (new - old) end

-- What answers have: mean and spread of the error of our estimate, how far off prompt estimates are, how long calls take.
local function learn_answer(g, used, output)
  state.duration = closer(state.duration, now - g.a, 0.1)
  if used < 0 or output < 0 then return end
  local step = math.max(0.05, 1 / (state.samples + 1))
  local error = used - g.p * state.ratio - state.answer
  if state.samples > 0 then state.spread = closer(state.spread, error * error, math.max(0.05, 1 / state.samples)) end
  if g.p > 0 then state.ratio = math.min(3, math.max(0.3, closer(state.ratio, (used - output) / g.p, step))) end
  state.answer = closer(state.answer, output, step)
  state.samples = math.min(1000, state.samples + 1)
end

-- What the provider reports as left, where that is clearly less than we know of: others use the credential too.
local function compare(limit, remaining, most, ours)
  if limit <= 0 or remaining < 0 or most == math.huge then return 0 end
  local used = (limit - remaining) * state.window / 60000
  return used - ours > 0.1 * most and used - ours or 0
end

local function learn_report(since, limit_r, left_r, reset_r, limit_t, left_t, reset_t)
  if limit_r > 0 then state.seenRequests = limit_r end
  if limit_t > 0 then state.seenTokens = limit_t end
  local requests, tokens = allowed()
  -- An old report means little now.
  if now - since > state.window / 6 then return end
  local reported_at = math.min(now, since + 2000)
  local function pause(left, reset, ours, most)
    if left ~= 0 or reset <= 0 or (most < math.huge and ours >= 0.9 * most) then return end
    state.coolUntil = math.max(state.coolUntil, reported_at + math.min(reset, 60000))
  end
  pause(left_r, reset_r, sum_requests, requests)
  pause(left_t, reset_t, sum_tokens, tokens)
  local others_r = compare(state.seenRequests, left_r, requests, all_requests)
  local others_t = compare(state.seenTokens, left_t, tokens, all_tokens)
  if others_r > 0 or others_t > 0 then add(bucket_of(now), others_r, others_t) end
end

-- Requests per window, as granted while there were any.
local function speed()
  local first = bucket_of(now)
  for i = 1, #marks, 3 do first = math.min(first, math.max(oldest, marks[i])) end
  return all_requests * state.window / math.max(state.window / 6, now - first * width)
end

-- A refusal cools everybody; those that were under way meanwhile add nothing. Where no limit is known, or the known one
-- is refused again and again, a rate is learnt from what was granted.
local function learn_refusal(since, calm, counted, retry_after)
  local fresh = calm and since >= state.coolFrom
  if fresh then
    state.streak = now - state.coolUntil > 60000 and 1 or math.min(7, state.streak + 1)
    state.heat = state.heat * math.exp(-(now - state.refusedAt) / (5 * state.window)) + 1
    state.coolFrom, state.refusedAt = now, now
    local requests, tokens, most = allowed()
    -- At the brim calls that took longer to the provider than the guard allows for are the likely cause.
    if counted and (sum_requests > 0.8 * most or sum_tokens > 0.8 * tokens) then state.caution = state.caution + 100 end
    if (requests == math.huge and tokens == math.huge) or state.heat > 2.5 or state.rate > 0 then
      local known = state.rate > 0 and state.rate or math.huge
      state.rate = math.max(state.window / 6000, 0.8 * math.min(speed(), known))
    end
  end
  local wait = retry_after >= 0 and retry_after or 1000 * 2 ^ (math.max(1, state.streak) - 1)
  state.coolUntil = math.max(state.coolUntil, now + math.max(250, math.min(60000, wait)))
  return fresh
end
