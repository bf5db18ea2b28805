--[[ Records what one person decides about the calls, and about the money, that a run waits for: all or nothing. When that
decides something and the run is suspended, its wait ends in the same step; otherwise the worker finds the decision.
KEYS and ARGV[1] to [10] as in resume.lua; then
KEYS[9] audit stream, in a Cluster the run's own
ARGV[11] 1 when the journal entry carries a verdict about money  [12] name of the person, or ''  [13] the audit entry of that verdict
for each call: its id, the verdict (granted, denied, answered), a fingerprint of the vote, the vote as JSON
of flat strings, the decision as JSON without who made it, its audit entry without the last brace
Returns {0} gone; {1} ended; {2, reason, id, detail} refused; {3} recorded, and nothing to resume; {4, segment, last
number, queue, kind, calls that are still pending} resumed, now or by this very call before. ]]
-- include ../../append-events
-- include ../../stored-json
-- include ../waits/waiting-for
-- include ../../money/child-costs
-- include ../waits/end-wait
-- include vote
local run = redis.call('HMGET', KEYS[1], 'status', 'segment', 'op', 'lastSequence', 'queue', 'kind', 'epoch', 'pending',
  'resumes', 'endedAt')
local status, segment, op, last, queue, kind, epoch, pending, resumes, ended = unpack(run, 1, 10)
if not status then return {0} end
if op == ARGV[1] then return {4, tonumber(segment), tonumber(last), queue, kind, #waitingFor(pending)} end
if ended then return {1} end
local waiting = waitingFor(pending)
resumes = tonumber(resumes or 0)

local items, money = {}, false
for _, item in ipairs(waiting) do
  if people[item.kind] then items[item.id] = item end
  money = money or item.kind == 'budget'
end
if ARGV[11] == '1' and not (money and status == 'suspended' and (ARGV[2] == '' or ARGV[2] == segment)) then
  return {2, 'no_money', '', ''}
end

local changes, complete, decided, audited = {}, {}, {}, {}
if ARGV[11] == '1' then audited[1] = ARGV[13] end
for at = 14, #ARGV, 6 do
  local id, verdict = ARGV[at], ARGV[at + 1]
  local about, refused, detail = vote(id, items[id], verdict, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], resumes, changes)
  if refused then return {2, refused, id, detail} end
  if about then
    audited[#audited + 1] = ARGV[at + 5] .. (about.toolName and ',"toolName":' .. cjson.encode(about.toolName) or '') .. '}'
  end
  if about and about.verdict then
    decided[id] = true
    complete[#complete + 1] = withNames(about, ARGV[at + 4])
  end
end

if #changes > 0 then
  redis.call('HSET', KEYS[6], unpack(changes))
  redis.call('EXPIRE', KEYS[6], ARGV[10])
end
for _, entry in ipairs(audited) do addToStreams(nil, nil, KEYS[9], entry, ARGV[8] == 'SPUBLISH') end
if #complete > 0 then
  redis.call('RPUSH', KEYS[5], unpack(complete))
  redis.call('EXPIRE', KEYS[5], ARGV[10])
end
if status == 'suspended' and (#complete > 0 or ARGV[11] == '1') then
  local following, seq, left = endWait(segment, last, epoch, resumes, waiting)
  return {4, following, seq, queue, kind, left}
end
if #complete > 0 then
  local left = {}
  for _, item in ipairs(waiting) do
    if not decided[item.id] then left[#left + 1] = item end
  end
  redis.call('HSET', KEYS[1], 'pending', textsOf(left))
end
return {3}
