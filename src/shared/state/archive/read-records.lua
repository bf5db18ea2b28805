--[[ Answers the records of runs, each as one text: to take a hash apart field by field costs a process more than this costs Redis.
KEYS records
Returns for each its fields and values and last their number, with \0 between; after a megabyte nothing for the others, since a script has
all of it in memory at once. ]]
local texts, bytes = {}, 0
for i, key in ipairs(KEYS) do
  texts[i] = false
  if bytes < 1048576 then
    local items = redis.call('HGETALL', key)
    items[#items + 1] = #items
    texts[i] = table.concat(items, '\0')
    bytes = bytes + #texts[i]
  end
end
return texts
