--[[ Shared fragment: how long what an ended run leaves stays. Until it is in the archive, but no longer than `waitS`, all of it does;
then `archived.lua` gives it these times.
keepEnded(keys, keepS, logS, waitS, dropsJournal): keys are record, journal, event log and both lists of decisions; keepS holds for
the record, the journal and the decisions, logS for the events. With waitS 0 the run is not archived. ]]
local function keepEnded(keys, keepS, logS, waitS, dropsJournal)
  keepS, logS, waitS = tonumber(keepS), tonumber(logS), tonumber(waitS)
  local drops = dropsJournal and '1' or '0'
  if waitS > 0 then redis.call('HSET', keys[1], 'unarchived', keepS .. ' ' .. logS .. ' ' .. drops) end
  for i, key in ipairs(keys) do
    redis.call('EXPIRE', key, math.max(i == 3 and logS or keepS, waitS))
  end
  if dropsJournal and waitS == 0 then redis.call('DEL', keys[2]) end
end
