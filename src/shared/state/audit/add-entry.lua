--[[ Shared fragment: adds an entry to the audit stream of a tenant, and removes what is too old or too much there.
addEntry(stream, entry). The stream goes 30 days after its last entry. ]]
local function addEntry(stream, entry)
  redis.call('XADD', stream, 'MAXLEN', '~', 50000, '*', 'a', entry)
  redis.call('XTRIM', stream, 'MINID', '~', (redis.call('TIME')[1] - 2592000) * 1000)
  redis.call('EXPIRE', stream, 2592000)
end
