--[[ Shared fragment: numbers events, adds them to a run's replay log and publishes them.
Each event arrives as a JSON object without its number; the number is spliced in front. All events go out as one message.
append(streamKey, liveChannel, firehoseChannel, lifecycleKey, publishCommand, maxLen, seq, events, onlyIfLogExists, auditKey)
returns the new seq. events is a list of strings whose first character is a flag: D delta (not in the firehose),
L lifecycle, A audited (first its entry in the audit stream, on a line of its own), or N. The first XADD is the first write, so a
number that is taken, and memory that is full, raise an error before anything has changed. With onlyIfLogExists a log that is
gone stays gone and the answer is nil. ]]
-- include audit/add-entry
local function numbered(event, seq)
  -- The entry of an audited event ends with its line. JSON has no line break.
  local line = string.sub(event, 1, 1) == 'A' and string.find(event, '\n', 1, true)
  return '{"v":1,"sequenceNumber":' .. seq .. ',' .. string.sub(event, line and line + 2 or 3)
end

local function numberedEntry(event, seq)
  return numbered('N' .. string.sub(event, 2, string.find(event, '\n', 1, true) - 1), seq)
end

-- In a Cluster both are the run's own stream, until a process has moved what is there to the streams of all runs.
local function addToStreams(lifecycle, event, audit, entry, isOwn)
  if event then redis.call('XADD', lifecycle, 'MAXLEN', '~', 100000, '*', 'e', event) end
  if entry and isOwn then redis.call('XADD', audit, '*', 'a', entry) end
  if entry and not isOwn then addEntry(audit, entry) end
  if isOwn then redis.call('EXPIRE', event and lifecycle or audit, 604800) end
end

local function append(stream, live, firehose, lifecycle, publish, maxLen, seq, events, onlyIfLogExists, audit)
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
    local ofAllRuns = flag == 'L' and lifecycle ~= '' and event
    local entry = flag == 'A' and numberedEntry(events[i], seq)
    if ofAllRuns or entry then addToStreams(lifecycle, ofAllRuns, audit, entry, publish == 'SPUBLISH') end
  end
  redis.call(publish, live, '[' .. table.concat(all, ',') .. ']')
  if #public > 0 then redis.call('PUBLISH', firehose, '[' .. table.concat(public, ',') .. ']') end
  return seq
end
