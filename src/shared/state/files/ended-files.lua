--[[ Shared fragment about the files of a tenant. KEYS[2] ends  KEYS[3] bytes  KEYS[4…] lists of ids
bytesUsed(now) takes files that have ended from the lists, at most 1,000, and returns the bytes of all others together.
forget(id) takes one file from the lists. ]]
local function forget(id)
  local freed = redis.call('HGET', KEYS[3], id)
  if freed then redis.call('HINCRBY', KEYS[3], '#used', -tonumber(freed)) end
  redis.call('HDEL', KEYS[3], id)
  for list = 2, #KEYS do
    if list ~= 3 then redis.call('ZREM', KEYS[list], id) end
  end
end

local function bytesUsed(now)
  local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 1000)
  for _, id in ipairs(ended) do forget(id) end
  return tonumber(redis.call('HGET', KEYS[3], '#used') or '0')
end
