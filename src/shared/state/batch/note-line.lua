--[[ Notes more about an open line.
KEYS[1] record  KEYS[2] open lines   ARGV[1] nonce of the stay  [2] place of the line  [3] what is known of it, as JSON
Returns 1, or 0 when the stay is not the owner's any more. A line that has its outcome stays as it is. ]]
if redis.call('HGET', KEYS[1], 'stay') ~= ARGV[1] then return 0 end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then redis.call('HSET', KEYS[2], ARGV[2], ARGV[3]) end
return 1
