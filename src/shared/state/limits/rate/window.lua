--[[ Fragment, after state: what was granted within the last window, in 120 sub-buckets and a guard for the time
that a call takes from here to the provider. A sixth of a window more is remembered, to compare with what providers report. ]]
local width, guard, marks, oldest = 0, 0, {}, 0
-- Within the window now; within it when a run that is woken now has come; and all that is remembered.
local sum_requests, sum_tokens, then_requests, then_tokens, all_requests, all_tokens = 0, 0, 0, 0, 0, 0
local now_from, then_from, marked = 0, 0, false

local function bucket_of(at) return math.floor(at / width) end

local function count(bucket, requests, tokens)
  all_requests, all_tokens = all_requests + requests, all_tokens + tokens
  if bucket >= now_from then sum_requests, sum_tokens = sum_requests + requests, sum_tokens + tokens end
  if bucket >= then_from then then_requests, then_tokens = then_requests + requests, then_tokens + tokens end
end

local function open_window()
  width = state.window / 120
  guard = math.min(12, math.max(1, math.ceil((250 + state.caution) / width)))
  oldest = bucket_of(now) - 140 - guard
  now_from, then_from = bucket_of(now) - 120 - guard, bucket_of(now + state.delay) - 120 - guard
  local kept = redis.call('GET', WINDOW)
  marks = kept and cmsgpack.unpack(kept) or {}
  local fresh = #marks > 0 and marks[1] < oldest - 20 and {} or marks
  for i = 1, #marks, 3 do
    local bucket, requests, tokens = marks[i], marks[i + 1], marks[i + 2]
    if bucket >= oldest then
      count(bucket, requests, tokens)
      if fresh ~= marks then
        local n = #fresh
        fresh[n + 1], fresh[n + 2], fresh[n + 3] = bucket, requests, tokens
      end
    end
  end
  marks = fresh
end

local function add(bucket, requests, tokens)
  if bucket < oldest then return end
  local at = #marks - 2
  while at > 0 and marks[at] ~= bucket do at = at - 3 end
  if at < 1 then at = #marks + 1 end
  marks[at] = bucket
  marks[at + 1], marks[at + 2] = (marks[at + 1] or 0) + requests, (marks[at + 2] or 0) + tokens
  count(bucket, requests, tokens)
  marked = true
end

-- Milliseconds that one request, or these tokens, take at the pace of the limiter: a little below what is allowed.
local function pace_of(allowance, amount) return amount * state.window / (0.97 * allowance) end

-- Moves the paces: what was taken, or given back.
local function pay(requests, tokens)
  local most_requests, most_tokens = allowed()
  state.requestsPaid = math.max(state.requestsPaid, now) + pace_of(most_requests, requests)
  state.tokensPaid = math.max(state.tokensPaid, now) + pace_of(most_tokens, tokens)
end

local function save()
  if marked then redis.call('SET', WINDOW, cmsgpack.pack(marks), 'PX', 86400000) end
  if cmsgpack.pack(state) == packed then return end
  state.at = now
  local due = now - state.kept > 3600000
  if due then state.kept = now end
  redis.call('SET', STATE, cmsgpack.pack(state), 'PX', 86400000)
  for i = 3, due and #KEYS or 0 do redis.call('PEXPIRE', KEYS[i], 86400000) end
end
