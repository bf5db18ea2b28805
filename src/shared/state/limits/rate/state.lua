--[[ Fragment: the state of one limiter. Times are milliseconds of this Redis; a window is what the provider counts over.
KEYS[1] state, packed  [2] sub-buckets of the window, packed: number, requests, tokens  [3] wait queue: sorted by tenant, then
by order of asking  [4] hash of waiters, packed  [5] waiting tenants by virtual time  [6] other tenants by it
[7] grants and promises by the end of their lease  [8] hash of them, packed  [9] waiters by the end of their lease
[10] list of runs to wake ]]
local STATE, WINDOW, QUEUE, WAITERS, TENANTS, PAST, LEASES, GRANTS, SEATS, WAKE = unpack(KEYS)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local packed = redis.call('GET', STATE)
local state = {
  at = 0, window = 60000, requests = 0, tokens = 0, flight = 0, seenRequests = 0, seenTokens = 0, rate = 0,
  refusedAt = 0, caution = 0,
  coolFrom = 0, coolUntil = 0, streak = 0, heat = 0, requestsPaid = 0, tokensPaid = 0, promisedRequests = 0, promisedTokens = 0,
  virtual = 0, usual = 1000, order = 0, samples = 0, answer = 0, spread = 0, ratio = 1, delay = 300,
  duration = 1000, kept = 0,
}
-- Over the defaults: a version before this one may have left fields out.
for name, value in pairs(packed and cmsgpack.unpack(packed) or {}) do state[name] = value end
now = math.max(now, state.at)

local function get(hash, id)
  local value = redis.call('HGET', hash, id)
  return value and cmsgpack.unpack(value)
end
local function put(hash, id, value) redis.call('HSET', hash, id, cmsgpack.pack(value)) end

-- The first write of every script: one that Redis refuses when memory is full.
local function begin() redis.call('HSET', GRANTS, 'at', now) end

-- Sets the configured limits, per minute; 0 is unknown.
local function configure(requests, tokens, flight, window)
  if window ~= state.window then redis.call('DEL', WINDOW) end
  state.requests, state.tokens, state.flight, state.window = requests, tokens, flight, window
end

local function least(a, b)
  if a <= 0 then a = math.huge end
  if b <= 0 then b = math.huge end
  return math.min(a, b)
end

-- What a window may have: requests, tokens; then requests without the rate learnt from refusals, which only sets the
-- pace. Without a refusal for half an hour what refusals taught is forgotten.
local function allowed()
  local scale = state.window / 60000
  local requests = least(state.requests, state.seenRequests) * scale
  if now - state.refusedAt > 1800000 then state.rate, state.caution = 0, 0 end
  return least(requests, state.rate), least(state.tokens, state.seenTokens) * scale, requests
end

local function is_free()
  local requests, tokens = allowed()
  return requests == math.huge and tokens == math.huge and state.flight == 0 and now >= state.coolUntil
end
