--[[ Pauses a batch: no further line is begun.
KEYS[1] record
Returns its status before, or 0 when there is none. ]]
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return 0 end
if status == 'validating' or status == 'quoting' or status == 'in_progress' then
  redis.call('HSET', KEYS[1], 'status', 'paused', 'reason', 'asked', 'before', status)
end
return status
