--[[ Records a file whose parts are all written, unless there is one of this id.
KEYS[1] the file  KEYS[2] ends  KEYS[3] bytes  KEYS[4] ids of all files of the tenant  KEYS[5…] ids of those for each purpose
ARGV[1] id  [2] which of the keys lists its purpose  [3] view as JSON  [4] parts as JSON  [5] bytes  [6] end in milliseconds
ARGV[7] now  [8] bytes that the tenant may have  [9] milliseconds that the lists stay after the last file
Returns 1, 2 when it was there, or 0 when the tenant would have too much: then nothing was written. ]]
-- include ended-files
if redis.call('EXISTS', KEYS[1]) == 1 then return 2 end
local used = bytesUsed(ARGV[7]) + tonumber(ARGV[5])
if used > tonumber(ARGV[8]) then return 0 end
redis.call('HSET', KEYS[1], 'view', ARGV[3], 'parts', ARGV[4])
redis.call('PEXPIREAT', KEYS[1], ARGV[6])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[5], '#used', used)
redis.call('ZADD', KEYS[2], ARGV[6], ARGV[1])
redis.call('ZADD', KEYS[4], 0, ARGV[1])
redis.call('ZADD', KEYS[tonumber(ARGV[2])], 0, ARGV[1])
for list = 2, #KEYS do redis.call('PEXPIRE', KEYS[list], ARGV[9]) end
return 1
