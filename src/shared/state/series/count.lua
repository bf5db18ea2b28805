--[[ Adds what happened to the buckets of a tenant, if nothing was added since the caller read the mark.
KEYS[1] mark: the last entry of the lifecycle stream that is counted  KEYS[2] events that were counted in the last
minutes, only in a Cluster  then the buckets
ARGV[1] the mark as it was read, or ''  [2] the new one  [3] seconds to keep it  [4] most names of agents, and of models
[5] name of the others  [6] now in ms  [7] number of events to remember; these follow
then for each bucket: seconds to keep it, how many counters, and each one's name and what it grows by; by less than 0
it shrinks, at most to 0. A counter `max:…` is set to the larger value. One of an agent or a model is `agent:<counter>:<name>`: a bucket has only so many of
these names.
Returns 1 counted, 0 another process has counted in between. ]]
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end

local function named(bucket, counter)
  local kind, of, name = string.match(counter, '^([am]%a+):(%a+):(.*)$')
  if kind ~= 'agent' and kind ~= 'model' then return counter end
  local list = 'names:' .. kind
  if redis.call('HEXISTS', bucket, list .. ':' .. name) == 0 then
    if tonumber(redis.call('HGET', bucket, list) or '0') >= tonumber(ARGV[4]) then return kind .. ':' .. of .. ':' .. ARGV[5] end
    redis.call('HINCRBY', bucket, list, 1)
    redis.call('HSET', bucket, list .. ':' .. name, 1)
  end
  return counter
end

local at = 8
for _ = 1, tonumber(ARGV[7]) do
  redis.call('ZADD', KEYS[2], ARGV[6], ARGV[at])
  at = at + 1
end
if ARGV[7] ~= '0' then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[6] - 600000)
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -100001)
  redis.call('EXPIRE', KEYS[2], 600)
end
for key = 3, #KEYS do
  local last = at + 1 + 2 * tonumber(ARGV[at + 1])
  for i = at + 2, last, 2 do
    local counter, by = ARGV[i], ARGV[i + 1]
    if string.sub(counter, 1, 4) == 'max:' then
      if tonumber(by) > tonumber(redis.call('HGET', KEYS[key], counter) or '0') then redis.call('HSET', KEYS[key], counter, by) end
    elseif tonumber(by) >= 0 then
      redis.call('HINCRBY', KEYS[key], named(KEYS[key], counter), by)
    elseif redis.call('EXISTS', KEYS[key]) == 1 then
      local name = named(KEYS[key], counter)
      local most = tonumber(redis.call('HGET', KEYS[key], name) or '0')
      redis.call('HINCRBY', KEYS[key], name, -math.min(-by, most))
    end
  end
  redis.call('EXPIRE', KEYS[key], ARGV[at])
  at = last + 1
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
