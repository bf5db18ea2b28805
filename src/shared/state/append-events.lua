--[[ Shared fragment: numbers events, adds them to a run's replay log and publishes them.
Each event arrives as a JSON object without its number; the number is spliced in front. All events go out as one message.
append(streamKey, liveChannel, firehoseChannel, lifecycleKey, publishCommand, maxLen, seq, events, onlyIfLogExists)
returns the new seq. events is a list of strings whose first character is a flag: D delta (not in the firehose),
L lifecycle, or N. The first XADD is the first write, so a number that is taken, and memory that is full, raise an error before
anything has changed. With onlyIfLogExists a log that is gone stays gone and the answer is nil. ]]
local function numbered(event, seq)
  return '{"v":1,"sequenceNumber":' .. seq .. ',' .. string.sub(event, 3)
end

local function append(stream, live, firehose, lifecycle, publish, maxLen, seq, events, onlyIfLogExists)
  if #events == 0 then return tonumber(seq) end
  local all, public = {}, {}
  for i = 1, #events do
    local flag = string.sub(events[i], 1, 1)
    seq = seq + 1
    local event = numbered(events[i], seq)
    if onlyIfLogExists then
      if not redis.call('XADD', stream, 'NOMKSTREAM', 'MAXLEN', '~', maxLen, seq .. '-0', 'e', event) then return nil end
    else
      redis.call('XADD', stream, 'MAXLEN', '~', maxLen, seq .. '-0', 'e', event)
    end
    all[#all + 1] = event
    if flag ~= 'D' then public[#public + 1] = event end
    if flag == 'L' and lifecycle ~= '' then
      redis.call('XADD', lifecycle, 'MAXLEN', '~', 100000, '*', 'e', event)
      -- In a Cluster it is the run's own, until a process has moved its events to the stream of all runs.
      if publish == 'SPUBLISH' then redis.call('EXPIRE', lifecycle, 604800) end
    end
  end
  redis.call(publish, live, '[' .. table.concat(all, ',') .. ']')
  if #public > 0 then redis.call('PUBLISH', firehose, '[' .. table.concat(public, ',') .. ']') end
  return seq
end
