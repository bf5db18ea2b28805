--[[ Fragment, after window: the wait queue. First come, first served within a tenant; between tenants the one with the
smallest virtual time, which grows by granted tokens divided by weight. A waiter has t tenant, w weight, p tokens of the
prompt, o most tokens of the answer, q order, k kind (local: a process waits; parked; woken; away: its position is kept),
f time of first asking, g id of the grant it asks for, h it was promised its turn, l how
often it did not come. Those with h are first of all. ]]
local seat_ms = 4000

local function tenant_of(w) return w.h and '' or w.t end
local function range_of(tenant) return '[' .. tenant .. '\0', '(' .. tenant .. '\1' end
local function position_of(id, w) return tenant_of(w) .. '\0' .. string.format('%015d', w.q) .. '\0' .. id end

local function exact(number) return string.format('%.17g', number) end

-- The virtual time before which no tenant starts. One that used less than its share lately is a few calls ahead of the others.
local function earliest()
  local _, _, requests = allowed()
  return state.virtual - math.max(8, requests < math.huge and 0.13 * requests or 0) * state.usual
end

local function virtual_of(tenant)
  local waiting = redis.call('ZSCORE', TENANTS, tenant)
  if waiting then return tonumber(waiting), TENANTS end
  return math.max(tonumber(redis.call('ZSCORE', PAST, tenant) or '-inf'), earliest()), PAST
end

-- Adds to a tenant's virtual time.
local function spend(tenant, amount)
  local virtual, key = virtual_of(tenant)
  redis.call('ZADD', key, exact(virtual + amount), tenant)
end

local function enter(id, w)
  local tenant = tenant_of(w)
  if not redis.call('ZSCORE', TENANTS, tenant) then
    local virtual = virtual_of(tenant)
    redis.call('ZADD', TENANTS, w.h and '-inf' or exact(virtual), tenant)
    redis.call('ZREM', PAST, tenant)
  end
  redis.call('ZADD', QUEUE, 0, position_of(id, w))
  put(WAITERS, id, w)
  if w.k == 'local' then redis.call('ZADD', SEATS, now + seat_ms, id) else redis.call('ZREM', SEATS, id) end
end

-- Out of the queue. The waiter itself is kept for the caller to change or drop.
local function step_out(id, w)
  local tenant = tenant_of(w)
  if redis.call('ZREM', QUEUE, position_of(id, w)) == 0 then return end
  if redis.call('ZLEXCOUNT', QUEUE, range_of(tenant)) > 0 then return end
  local virtual = redis.call('ZSCORE', TENANTS, tenant)
  redis.call('ZREM', TENANTS, tenant)
  if tenant ~= '' and tonumber(virtual) > earliest() then redis.call('ZADD', PAST, virtual, tenant) end
end

-- After the tenant a position has 15 digits between two NULs.
local function head_of(tenant)
  local from, to = range_of(tenant)
  local position = redis.call('ZRANGEBYLEX', QUEUE, from, to, 'LIMIT', 0, 1)[1]
  return position and string.sub(position, #tenant + 18)
end

-- Keeps the position of a run that waits nowhere for now.
local function stay_away(id, w, ms)
  step_out(id, w)
  w.k, w.h, w.g = 'away', nil, nil
  put(WAITERS, id, w)
  redis.call('ZADD', SEATS, now + ms, id)
end
