--[[ Fragment, after wait-queue: grants, and promises to runs that are woken. A grant has n tokens, t tenant, w weight,
p tokens of the prompt, a time, f time of first asking, b sub-bucket, and s once the process that asked for it knows. ]]
local promise_ms, unseen_ms, lease_ms, away_ms = 30000, 4000, 60000, 60000

local function expected_tokens(w)
  local answer = state.samples > 0 and state.answer or 1024
  return math.max(1, math.floor(w.p * state.ratio + math.min(w.o, answer) + 0.5))
end

local function count_promise(sign, n)
  state.promisedRequests, state.promisedTokens = state.promisedRequests + sign, state.promisedTokens + sign * n
end

local function drop_grant(id)
  redis.call('HDEL', GRANTS, id)
  redis.call('ZREM', LEASES, id)
end

-- Takes back what was never sent.
local function undo(id, g)
  if g.b then add(g.b, -1, -g.n) else count_promise(-1, g.n) end
  pay(-1, -g.n)
  spend(g.t, -g.n / g.w)
  drop_grant(id)
end

local function grant(w, n)
  local g = { n = n, t = w.t, w = w.w, p = w.p, a = now, f = w.f, b = bucket_of(now) }
  add(g.b, 1, n)
  put(GRANTS, w.g, g)
  redis.call('ZADD', LEASES, now + unseen_ms, w.g)
end

-- The turn of a waiter has come: granted where a process waits, promised where the run has to be woken.
local function serve(id, w)
  local promise = w.h and get(GRANTS, 'p:' .. id)
  local n = promise and promise.n or expected_tokens(w)
  if not promise then
    local virtual = virtual_of(w.t)
    state.virtual = math.max(state.virtual, virtual)
    state.usual = state.usual + 0.05 * (n - state.usual)
    spend(w.t, n / w.w)
    redis.call('ZREMRANGEBYSCORE', PAST, '-inf', exact(earliest()))
    pay(1, n)
  end
  step_out(id, w)
  redis.call('ZREM', SEATS, id)
  if w.k == 'local' then
    if promise then
      count_promise(-1, n)
      drop_grant('p:' .. id)
    end
    redis.call('HDEL', WAITERS, id)
    return grant(w, n)
  end
  count_promise(1, n)
  w.k = 'woken'
  put(WAITERS, id, w)
  put(GRANTS, 'p:' .. id, { n = n, t = w.t, w = w.w, p = w.p, a = now, f = w.f })
  redis.call('ZADD', LEASES, now + promise_ms, 'p:' .. id)
  redis.call('RPUSH', WAKE, id)
end
