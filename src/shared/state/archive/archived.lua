--[[ A run is in the archive, or is not to be there: what it leaves in Redis stays no longer than it was meant to.
KEYS[1] run  KEYS[2] journal  KEYS[3] event log  KEYS[4] decisions that the journal does not have  KEYS[5] all decisions
ARGV[1] when the run ended that was written, as ISO time  [2] the same in milliseconds since the epoch
Returns 1; 0 when the run was redriven since, or this has been done. ]]
local run = redis.call('HMGET', KEYS[1], 'endedAt', 'unarchived')
if run[1] ~= ARGV[1] or not run[2] then return 0 end
local keepS, logS, drops = string.match(run[2], '^(%d+) (%d+) (%d)$')
redis.call('HDEL', KEYS[1], 'unarchived')
local function keepFor(key, seconds)
  redis.call('PEXPIREAT', key, string.format('%.0f', tonumber(ARGV[2]) + seconds * 1000))
end
for _, key in ipairs({KEYS[1], KEYS[2], KEYS[4], KEYS[5]}) do keepFor(key, keepS) end
keepFor(KEYS[3], logS)
if drops == '1' then redis.call('DEL', KEYS[2]) end
return 1
