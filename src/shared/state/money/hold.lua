--[[ Holds money for the closing call of a run in every account, or in none of them; or releases it.
KEYS, ARGV begin as in accounts; then, counted from the end of that front:
ARGV[1] what is to be held, 0 releases it  [2] 1: refuse nothing  [3] field of what calls of this model cost beyond their
  reservation  [4] run  [5] what the run has spent by its own record
Returns {1, what is held, runs whose money is there}; {2, account number, cap, spent, reserved, onExceed} busy, or with 3
exceeded: what was held before is held still. It only grows, so a repeat changes nothing.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include accounts
-- include wait-queue
-- include held
local wanted, force, excess, run, spentBefore = unpack(ARGV, lastArg + 1)
wanted = tonumber(wanted)
local hold = ownHold()
if wanted == 0 then
  local taken = {}
  if not hold then return { 1, 0, taken } end
  dropHold(hold)
  keepAccounts()
  for i = 1, accounts do takeFitting(i, taken) end
  return { 1, 0, taken }
end

if tonumber(spentBefore) > 0 then redis.call('HSETNX', accountKey(1), 'spent', spentBefore) end
for i = 1, accounts do
  local cap = ARGV[1 + 3 * i]
  if tonumber(cap) then redis.call('HSET', accountKey(i), 'cap', cap, 'onExceed', ARGV[2 + 3 * i]) end
  wanted = math.max(wanted, tonumber(ARGV[lastArg + 1]) + number(redis.call('HGET', accountKey(i), excess)))
end
if hold and hold.amount >= wanted and isPresent(hold) then return { 1, hold.amount, {} } end

local refusal = nil
for i = 1, accounts do
  local account, own = readAccount(i), heldIn(i, hold)
  if account.hard and force ~= '1' then
    local left = account.cap - account.spent - account.held + own
    local state = { 2, i, account.cap, account.spent, account.reserved, account.mode }
    if left < wanted then
      state[1], refusal = 3, state
      break
    end
    if left - (account.reserved - account.held) < wanted then refusal = refusal or state end
  end
end
if refusal then
  for i = 1, accounts do leaveQueue(i, run) end
  keepAccounts()
  return refusal
end
if hold then dropHold(hold) end
addHold(wanted)
for i = 1, accounts do leaveQueue(i, run) end
keepAccounts()
return { 1, wanted, {} }
