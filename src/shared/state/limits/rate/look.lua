--[[ Reads what a limiter allows within its window and what is in use. Writes nothing.
KEYS as in state   Returns {window in ms, requests allowed, requests used, tokens allowed, tokens used, calls allowed at
the same time, calls in flight, waiters, ms until the provider is asked again}; 0 stands for an unknown limit. ]]
-- include state
-- include window
open_window()
local function known(limit) return limit == math.huge and 0 or math.floor(limit) end
local requests, tokens = allowed()
local flight = redis.call('ZCOUNT', LEASES, now, '+inf') - state.promisedRequests
return {
  state.window, known(requests), sum_requests, known(tokens), math.floor(sum_tokens), state.flight, math.max(0, flight),
  redis.call('HLEN', WAITERS), math.max(0, math.ceil(state.coolUntil - now)),
}
