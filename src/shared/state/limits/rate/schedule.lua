--[[ Fragment, after grant: gives out what there is, in fair order. ]]
-- By how much a busy worker may poll later than it was asked to.
local late_ms = 200

-- A woken run did not come. Its wake-up may be lost, so it is woken again, a few times; its position is kept meanwhile.
local function wake_again(id, w)
  w.l = (w.l or 0) + 1
  stay_away(id, w, promise_ms)
  redis.call('RPUSH', WAKE, id)
end

-- Of leases that ended: what was certainly not sent is taken back, positions of lost processes are kept for a while.
local function sweep()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, 50)) do
    local g = get(GRANTS, id)
    if g and not g.s then undo(id, g) else drop_grant(id) end
    local run = g and not g.b and string.sub(id, 3)
    local w = run and get(WAITERS, run)
    if w and w.k == 'woken' then wake_again(run, w) end
  end
  if redis.call('ZCARD', LEASES) == 0 then state.promisedRequests, state.promisedTokens = 0, 0 end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', SEATS, '-inf', now, 'LIMIT', 0, 50)) do
    local w = get(WAITERS, id)
    if w and w.k == 'local' then
      stay_away(id, w, away_ms)
    elseif w and w.l and w.l < 4 then
      wake_again(id, w)
    else
      redis.call('ZREM', SEATS, id)
      redis.call('HDEL', WAITERS, id)
    end
  end
end

-- Milliseconds by which the paces are behind; 0 within a small burst. A call larger than the burst leaves a debt.
local function lag_of(n, many)
  local requests, tokens = allowed()
  local wait = 0
  if requests < math.huge then
    local burst = math.max(1, 0.12 * requests, math.min(3, requests / 2))
    local ahead = pace_of(requests, burst - 1)
    wait = state.requestsPaid - now - (many and math.min(late_ms, ahead) or ahead)
  end
  if tokens < math.huge then
    local ahead = pace_of(tokens, math.max(0, 0.12 * tokens - n))
    wait = math.max(wait, state.tokensPaid - now - (many and math.min(late_ms, ahead) or ahead))
  end
  return math.ceil(math.max(0, wait))
end

-- Milliseconds until another look is worth it; 0: its turn is now. Answers vary, so tokens of calls under way keep a
-- margin. Bursts and the last of a window are for tenants without many waiters.
local function blocked(w)
  if now < state.coolUntil then return state.coolUntil - now end
  local leases = redis.call('ZCARD', LEASES)
  if not w.h and state.flight > 0 and leases >= state.flight then return 50 end
  local many = not w.h and redis.call('ZLEXCOUNT', QUEUE, range_of(w.t)) > 3
  local _, tokens, requests = allowed()
  requests = math.max(1, requests)
  local n = math.min(expected_tokens(w), tokens)
  if many and requests < math.huge then requests = requests - math.floor(0.025 * requests + 0.5) end
  if many and tokens < math.huge then tokens = math.max(n, 0.99 * tokens) end
  local unsettled = math.max(0, leases - state.promisedRequests)
  local room = tokens - n - math.min(2 * math.sqrt(state.spread * (unsettled + 1)), 0.15 * tokens, tokens - n)
  if w.k == 'local' and (sum_requests + 1 > requests or sum_tokens > room) then return 50 end
  if w.h then return 0 end
  if then_requests + state.promisedRequests + 1 > requests or then_tokens + state.promisedTokens > room then return 50 end
  return lag_of(n, many)
end

-- Serves at most 64 waiters. Returns how long to wait before the next look.
local function dispatch()
  for _ = 1, 64 do
    local tenant = redis.call('ZRANGE', TENANTS, 0, 0)[1]
    if not tenant then return 250 end
    local id = head_of(tenant)
    local w = id and get(WAITERS, id)
    if not w then
      redis.call('ZREM', TENANTS, tenant)
    else
      local wait = blocked(w)
      if wait > 0 then return wait end
      serve(id, w)
    end
  end
  return 1
end

-- About how long a waiter will wait: what is before it in fair order, at the pace of the limiter.
local function expected_wait(id, w)
  local n = expected_tokens(w)
  local requests, tokens = allowed()
  local each = math.max(pace_of(requests, 1), tokens < math.huge and pace_of(tokens, n) or 0)
  if state.flight > 0 then each = math.max(each, state.duration / state.flight) end
  local own = tenant_of(w)
  local before = redis.call('ZLEXCOUNT', QUEUE, '[' .. own .. '\0', '(' .. position_of(id, w))
  local finish, ahead = virtual_of(own) + before * n / w.w, before
  local tenants = redis.call('ZRANGE', TENANTS, 0, 31, 'WITHSCORES')
  for i = 1, #tenants, 2 do
    local first = tenants[i] ~= own and head_of(tenants[i])
    local other = first and get(WAITERS, first)
    if other then
      local turns = math.ceil(math.max(0, finish - tonumber(tenants[i + 1])) * other.w / n)
      ahead = ahead + math.min(turns, redis.call('ZLEXCOUNT', QUEUE, range_of(tenants[i])))
    end
  end
  return math.ceil(math.max(0, state.coolUntil - now) + math.max(lag_of(n, ahead > 0), ahead * each))
end

-- The answer to a process that asked for a grant: {1, tokens, waited} granted, {2, retry} waiting, {4} not known here.
local function answer(id, grant_id, retry)
  local g = get(GRANTS, grant_id)
  if g then
    g.s = true
    put(GRANTS, grant_id, g)
    redis.call('ZADD', LEASES, now + lease_ms, grant_id)
    return { 1, g.n, now - g.f }
  end
  local w = get(WAITERS, id)
  return w and w.g == grant_id and { 2, retry } or { 4 }
end
