--[[ Reads a hash as one text: a reply of many fields costs the process that takes it apart five times as much.
KEYS[1] hash
Returns its fields and values, in turns, as JSON. ]]
return cjson.encode(redis.call('HGETALL', KEYS[1]))
