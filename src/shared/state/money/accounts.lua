--[[ Shared fragment: the accounts that pay for a run, from the front of KEYS and ARGV.
KEYS account, wait queue, needs and promises of the run, of its parents, of the batch and of the tenant, those that there
  are; with a tenant's account then that of the window before
ARGV[1] how many accounts  [2] window of the tenant's account, '-' without one  [3] the window before, '-'; then for each
  account: its cap ('' as stored, 'none'), onExceed, seconds to keep it
Sets `accounts`, `lastKey` and `lastArg` (where the front ends), and functions on accounts by their number. ]]
local accounts = tonumber(ARGV[1])
local lastArg = 3 + 3 * accounts
local lastKey = 4 * accounts + (ARGV[2] == '-' and 0 or 1)

local function number(value) return tonumber(value) or 0 end
local function accountKey(i) return KEYS[4 * i - 3] end

-- `cap` has top-ups in it and is nil without one; a `hard` one refuses.
local function readAccount(i)
  local cap, mode = ARGV[1 + 3 * i], ARGV[2 + 3 * i]
  local stored = redis.call('HMGET', accountKey(i), 'cap', 'onExceed', 'extra', 'spent', 'reserved', 'held')
  if cap == '' then cap, mode = stored[1], stored[2] or 'fail' end
  cap = tonumber(cap)
  local account = { mode = mode, spent = number(stored[4]), reserved = number(stored[5]), held = number(stored[6]) }
  if cap then account.cap = cap + number(stored[3]) end
  account.hard = cap and mode ~= 'warn'
  return account
end

local function keepAccounts()
  for i = 1, accounts do redis.call('EXPIRE', accountKey(i), ARGV[3 + 3 * i]) end
  -- A run that waits for people holds money for as long as they may take.
  if redis.call('HEXISTS', accountKey(1), 'hold') == 1 then redis.call('EXPIRE', accountKey(1), 2678400) end
end
