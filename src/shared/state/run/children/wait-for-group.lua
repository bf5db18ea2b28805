--[[ Records that a suspended run waits for several children as one group, and which of them begin later.
KEYS[1] run  KEYS[2] the group
ARGV[1] segment in which it waits  [2] 1 when the first answer ends that  [3] what later runs have in common, as JSON
ARGV[4] seconds to keep it; then what is their own, as JSON
Returns {1}, or {0} when it does not wait there any more.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include ../../in-parts
local run = redis.call('HMGET', KEYS[1], 'status', 'segment')
if run[1] ~= 'suspended' or run[2] ~= ARGV[1] then return {0} end
-- A repeat after a lost reply: others may have begun since.
if redis.call('HGET', KEYS[2], 'segment') == ARGV[1] then return {1} end
local fields = { 'segment', ARGV[1], 'first', ARGV[2], 'template', ARGV[3], 'next', 0 }
for i = 5, #ARGV do
  fields[#fields + 1] = i - 5
  fields[#fields + 1] = ARGV[i]
end
push('HSET', KEYS[2], fields)
redis.call('EXPIRE', KEYS[2], ARGV[4])
return {1}
