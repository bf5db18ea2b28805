--[[ Runs are in the archive, or are not to be there: what they leave in Redis stays no longer than it was meant to.
For each, KEYS run, journal, event log, decisions that the journal does not have, all decisions
and ARGV when the run ended that was written, as ISO time, and the same in milliseconds since the epoch
Returns for each 1; 0 when the run was redriven since, or this has been done. ]]
local function keepFor(key, endMs, seconds)
  redis.call('PEXPIREAT', key, string.format('%.0f', tonumber(endMs) + seconds * 1000))
end

local function archived(run, journal, events, decided, decisions, endedAt, endMs)
  local found = redis.call('HMGET', run, 'endedAt', 'unarchived')
  if found[1] ~= endedAt or not found[2] then return 0 end
  local keepS, logS, drops = string.match(found[2], '^(%d+) (%d+) (%d)$')
  redis.call('HDEL', run, 'unarchived')
  for _, key in ipairs({run, journal, decided, decisions}) do keepFor(key, endMs, keepS) end
  keepFor(events, endMs, logS)
  if drops == '1' then redis.call('DEL', journal) end
  return 1
end

local replies = {}
for i = 1, #KEYS / 5 do
  local k, a = 5 * i - 4, 2 * i - 1
  replies[i] = archived(KEYS[k], KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], ARGV[a], ARGV[a + 1])
end
return replies
