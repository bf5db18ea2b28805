--[[ Answers the records of runs, each as one text: to take a hash apart field by field costs a process far more than this costs Redis.
KEYS records
Returns for each the number of its fields and values, and then each of them, with \0 between. ]]
local texts = {}
for i, key in ipairs(KEYS) do
  local items = redis.call('HGETALL', key)
  texts[i] = table.concat({#items, unpack(items)}, '\0')
end
return texts
