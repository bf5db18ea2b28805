--[[ Adds an event to a thread, if there is such a thread.
KEYS[1] manifest  [2] events
ARGV[1] operation id  [2] most events that are kept  [3] the event as JSON, without its number
Returns its number, from 1 without gaps, also for a repeat of the last operation; 0 when there is no such thread. ]]
if redis.call('HEXISTS', KEYS[1], 'agentId') == 0 then return 0 end
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local seq = last and tonumber(string.match(last[1], '^%d+')) or 0
if last and last[2][4] == ARGV[1] then return seq end
seq = seq + 1
local event = '{"sequenceNumber":' .. seq .. ',' .. string.sub(ARGV[3], 2)
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[2], seq .. '-0', 'e', event, 'op', ARGV[1])
return seq
