--[[ Takes outcomes of open lines: each line once, with what it adds to the sums of the batch, and its line of output.
KEYS[1] record  KEYS[2] open lines  KEYS[3] bits of failed lines  KEYS[4] hash of what failed lines have cost
KEYS[5] list of what the sample brought  KEYS[6] list of lines of output  KEYS[7] the same of failed lines
ARGV[1] nonce of the stay  [2] tens of seconds since the epoch
ARGV[3...] eights: place, '1' when it failed, line of output, run id, microcents, input tokens, output tokens, what it says of the sample
or ''
Returns how many were taken; -1 when the stay is not the owner's any more. ]]
local stay, status, most = unpack(redis.call('HMGET', KEYS[1], 'stay', 'status', 'maxFailures'))
if stay ~= ARGV[1] then return -1 end
local sums = {'costMicrocents', 'inputTokens', 'outputTokens'}

-- A run that was redriven says what it has cost in all: what was counted of it before is no new cost.
local function add(place, run, amounts)
  local id, before = run, {}
  for part in string.gmatch(redis.call('HGET', KEYS[4], place) or '', '[^:]+') do before[#before + 1] = part end
  if before[1] ~= id then before = {} end
  for i, sum in ipairs(sums) do
    redis.call('HINCRBY', KEYS[1], sum, tonumber(amounts[i]) - tonumber(before[i + 1] or '0'))
  end
end

local taken, failures = 0, 0
for at = 3, #ARGV, 8 do
  local place, failed, text, run = ARGV[at], ARGV[at + 1] == '1', ARGV[at + 2], ARGV[at + 3]
  if redis.call('HDEL', KEYS[2], place) == 1 then
    taken = taken + 1
    local amounts = {ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]}
    add(place, run, amounts)
    redis.call('HINCRBY', KEYS[1], failed and 'failed' or 'completed', 1)
    redis.call('RPUSH', failed and KEYS[7] or KEYS[6], text)
    redis.call('HINCRBY', KEYS[1], failed and 'errorBytes' or 'outputBytes', #text)
    if failed then
      failures = failures + 1
      redis.call('SETBIT', KEYS[3], place, 1)
      if run ~= '' then redis.call('HSET', KEYS[4], place, table.concat({run, unpack(amounts)}, ':')) end
    end
    if ARGV[at + 7] ~= '' then redis.call('RPUSH', KEYS[5], ARGV[at + 7]) end
  end
end
-- The last minute, in fields that are used again after 70 seconds.
local field = 'rate' .. ARGV[2] % 7
local bucket, count = string.match(redis.call('HGET', KEYS[1], field) or '', '^(%d+):(%d+)$')
redis.call('HSET', KEYS[1], field, ARGV[2] .. ':' .. taken + (bucket == ARGV[2] and tonumber(count) or 0))
if failures > 0 then failures = redis.call('HINCRBY', KEYS[1], 'failures', failures) end
if failures > 0 and most and most ~= '' and failures >= tonumber(most) and (status == 'in_progress' or status == 'quoting') then
  redis.call('HSET', KEYS[1], 'status', 'paused', 'reason', 'max_failures', 'before', status)
end
return taken
