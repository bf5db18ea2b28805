--[[ Reserves money for one attempt in every account of a run, or in none of them.
KEYS, ARGV begin as in accounts; then, counted from the end of that front:
ARGV[1] id  [2] most that is wanted  [3] least that will do  [4] 1: refuse nothing  [5] cost source
  [6] field of what calls of this model cost beyond their reservation  [7] run  [8] what the run has spent by its own record
  [9] 1: it is the closing call, which what the run holds is for
Returns {1, amount, then account number, cap, spent and reserved of each that is passed with a warning, once for each run},
{2, account number, cap, spent, reserved, onExceed} busy, or with 3 exceeded. A repeat answers like the first.
The first write is one that Redis refuses when memory is full, so that a refusal leaves nothing half-written. ]]
-- include accounts
-- include wait-queue
-- include book
-- include held
local id, wanted, least, force, source, excess, run, spentBefore, closing = unpack(ARGV, lastArg + 1)
wanted, least = tonumber(wanted), math.min(tonumber(least), tonumber(wanted))
if tonumber(spentBefore) > 0 then redis.call('HSETNX', accountKey(1), 'spent', spentBefore) end
for i = 1, accounts do
  local cap = ARGV[1 + 3 * i]
  if tonumber(cap) then redis.call('HSET', accountKey(i), 'cap', cap, 'onExceed', ARGV[2 + 3 * i]) end
end

local margin, given, refusal = 0, wanted, nil
local hold = closing == '1' and ownHold() or nil
for i = 1, accounts do margin = math.max(margin, number(redis.call('HGET', accountKey(i), excess))) end
local known = openReservation(id) or finishedReservation(id)
if known then
  given = known.given
else
  for i = 1, accounts do
    local account = readAccount(i)
    if account.hard and force ~= '1' then
      local left = account.cap - account.spent - margin - account.held + heldIn(i, hold)
      local state = { 2, i, account.cap, account.spent, account.reserved, account.mode }
      if left < least then
        state[1], refusal = 3, state
        break
      end
      local free = left - (account.reserved - account.held)
      if free < least then refusal = refusal or state end
      given = math.min(given, free)
    end
  end
  if refusal then
    -- Waiting for less than what is asked here would wake the run for nothing.
    redis.call('HSET', accountKey(1), 'margin', margin)
    for i = 1, accounts do leaveQueue(i, run) end
    keepAccounts()
    return refusal
  end
  local reserved = given + margin
  if hold then dropHold(hold) end
  redis.call('HSET', accountKey(1), 'r:' .. id, string.format('%.0f %.0f %s %s', reserved, given, ARGV[2], source))
  for i = 1, accounts do redis.call('HINCRBY', accountKey(i), 'reserved', reserved) end
end

local reply = { 1, given }
for i = 1, accounts do
  leaveQueue(i, run)
  local account = readAccount(i)
  local warned = 'warned:' .. run .. ':' .. i
  if account.cap and account.mode == 'warn' and account.spent + account.reserved > account.cap then
    redis.call('HSETNX', accountKey(1), warned, id)
  end
  if redis.call('HGET', accountKey(1), warned) == id then
    for _, value in ipairs({ i, account.cap, account.spent, account.reserved }) do reply[#reply + 1] = value end
  end
end
keepAccounts()
return reply
