--[[ Lets the failed lines of a batch run again. One that has ended is open again, and its answers go into new files.
KEYS[1] record  KEYS[2] bits of the lines that were begun  KEYS[3] bits of failed lines  KEYS[4] hash of what failed lines have cost
KEYS[5] list of lines of output of failed lines  KEYS[6] list of their parts
ARGV[1] milliseconds since the epoch  [2] when it expires then  [3] id of a new output file  [4] id of a new error file  [5] nonce of this call
Returns {status before, failed lines, number of the job to add or 0}, or 0 when there is none. ]]
-- include ended
-- include job-for
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return 0 end
local call, done = string.match(redis.call('HGET', KEYS[1], 'redrive') or '', '^(.*):(%d+)$')
-- The reply was lost, and the call comes again.
if call == ARGV[5] then return {status, tonumber(done), jobFor(KEYS[1])} end
local again = redis.call('BITCOUNT', KEYS[3])
local isEnded = endedStatus[status]
local mayNot = status == 'failed' or status == 'validating' or status == 'finalizing' or status == 'cancelling'
if mayNot or again == 0 then return {status, again, 0} end
redis.call('BITOP', 'XOR', KEYS[2], KEYS[2], KEYS[3])
redis.call('DEL', KEYS[3], KEYS[5], KEYS[6])
redis.call('HSET', KEYS[1], 'failed', 0, 'errorBytes', 0, 'failures', 0, 'since', ARGV[1], 'redrive', ARGV[5] .. ':' .. again)
redis.call('HINCRBY', KEYS[1], 'round', 1)
if isEnded then
  local output, errors = unpack(redis.call('HMGET', KEYS[1], 'outputFileId', 'errorFileId'))
  redis.call('HSET', KEYS[1], 'baseFileId', output or '', 'oldErrorFileId', errors or '')
  redis.call('HSET', KEYS[1], 'outputId', ARGV[3], 'errorId', ARGV[4], 'expiresAt', ARGV[2], 'stay', '')
  redis.call('HDEL', KEYS[1], 'outputFileId', 'errorFileId', 'ending', 'endedAt', 'cancellingAt', 'finalizingAt')
  for _, key in ipairs({KEYS[1], KEYS[2], KEYS[4]}) do redis.call('PERSIST', key) end
end
if isEnded or status == 'paused' then
  local after = isEnded and 'in_progress' or redis.call('HGET', KEYS[1], 'before')
  redis.call('HSET', KEYS[1], 'status', after, 'reason', '')
  if after == 'in_progress' then redis.call('HSETNX', KEYS[1], 'inProgressAt', ARGV[1]) end
end
return {status, again, jobFor(KEYS[1])}
