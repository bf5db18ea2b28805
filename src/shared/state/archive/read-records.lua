--[[ Answers the records of runs, each as one text: to take a hash apart field by field costs a process more than this costs Redis.
KEYS records
Returns for each its fields and values and last their number, with \0 between. ]]
local texts = {}
for i, key in ipairs(KEYS) do
  local items = redis.call('HGETALL', key)
  items[#items + 1] = #items
  texts[i] = table.concat(items, '\0')
end
return texts
