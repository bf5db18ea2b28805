--[[ Answers the records of runs, each as one text: to take a hash apart field by field costs a process more than this costs Redis.
For each, KEYS record, decisions
Returns for each its fields and values, their number, and how many decisions it has, with \0 between; after a megabyte nothing for the
others, since a script has all of it in memory at once. ]]
local texts, bytes = {}, 0
for i = 1, #KEYS / 2 do
  texts[i] = false
  if bytes < 1048576 then
    local items = redis.call('HGETALL', KEYS[2 * i - 1])
    items[#items + 1] = #items
    items[#items + 1] = redis.call('HLEN', KEYS[2 * i])
    texts[i] = table.concat(items, '\0')
    bytes = bytes + #texts[i]
  end
end
return texts
