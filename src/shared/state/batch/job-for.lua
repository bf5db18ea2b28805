--[[ Shared fragment: jobFor(record) numbers a job for a batch that no process has, and answers the number; 0 when a stay goes on. ]]
local function jobFor(record)
  if redis.call('HGET', record, 'stay') ~= '' then return 0 end
  return redis.call('HINCRBY', record, 'jobs', 1)
end
