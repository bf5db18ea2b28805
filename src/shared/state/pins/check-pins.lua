--[[ Compares the tools of a server with those of its first use, or keeps them as such: the first worker wins.
KEYS[1] sorted set of servers by last use  KEYS[2] hash of the server: '#' what it is, 'p:' tool accepted, 'c:' tool changed
ARGV[1] now, in ms  [2] ms that pins are kept after the last use  [3] id of the server  [4] what it is, as JSON
ARGV[5] most fields of the hash  [6...] pairs: tool, and its digest (64 characters) with its JSON behind it
Returns for each tool '' when it is as accepted, else {what was accepted, or ''}. ]]
local now, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
local isFirst = redis.call('EXISTS', KEYS[2]) == 0
redis.call('HSET', KEYS[2], '#', ARGV[4])
redis.call('PEXPIRE', KEYS[2], ttl)
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ttl)
redis.call('PEXPIRE', KEYS[1], ttl)
local found = {}
for at = 6, #ARGV, 2 do
  local tool, said = ARGV[at], ARGV[at + 1]
  if isFirst then redis.call('HSETNX', KEYS[2], 'p:' .. tool, said) end
  local accepted = redis.call('HGET', KEYS[2], 'p:' .. tool) or ''
  if string.sub(accepted, 1, 64) == string.sub(said, 1, 64) then
    redis.call('HDEL', KEYS[2], 'c:' .. tool)
    found[#found + 1] = ''
  else
    local changed = redis.call('HGET', KEYS[2], 'c:' .. tool)
    local isKnown = changed and string.sub(changed, 1, 64) == string.sub(said, 1, 64)
    local hasRoom = changed or redis.call('HLEN', KEYS[2]) < tonumber(ARGV[5])
    if not isKnown and hasRoom then redis.call('HSET', KEYS[2], 'c:' .. tool, said) end
    found[#found + 1] = {accepted}
  end
end
return found
