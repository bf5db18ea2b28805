--[[ Makes a claim on an erasure last longer, or ends it, where it is still the caller's.
KEYS[1] claim  ARGV[1] its value  [2] milliseconds that it lasts from now on, 0 to end it ]]
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
