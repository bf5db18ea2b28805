--[[ Makes a body that was written in parts the one of its name.
KEYS[1] kept results of the run  KEYS[2] the body
ARGV[1] name  [2] what is known about it, as JSON with `id` and `totalBytes`  [3] its bytes  [4] bytes that the run may take
ARGV[5] seconds to keep both
Returns {1, id of the body that it replaces or ''}, or {0} when the run would take too much: then the body is gone. The
first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include ../stored-json
local before = decoded(redis.call('HGET', KEYS[1], ARGV[1])) or {}
local used = tonumber(redis.call('HGET', KEYS[1], '#used') or '0') - (tonumber(before.totalBytes) or 0) + tonumber(ARGV[3])
if used > tonumber(ARGV[4]) then
  redis.call('UNLINK', KEYS[2])
  return {0}
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], '#used', used)
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('EXPIRE', KEYS[2], ARGV[5])
return {1, type(before.id) == 'string' and before.id or ''}
