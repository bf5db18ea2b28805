--[[ Shared fragment: open and finished reservations of a run. Needs accounts; the first account is the run's.
An open one is the field r:<id> of the run's account: what is reserved, the part of it that the caller may plan with, the
window of the tenant's account in which it is reserved, and the cost source. The newest finished ones are lines of the field
`done`: id, amount planned with, what was unconfirmed, and the window in which that was booked, '=' when that is final. ]]
local remembered = 32

local function openReservation(id)
  local value = redis.call('HGET', accountKey(1), 'r:' .. id)
  if not value then return nil end
  local reserved, given, window, source = string.match(value, '^(%d+) (%d+) (%S+) (.*)$')
  return { reserved = tonumber(reserved), given = tonumber(given), window = window, source = source, unconfirmed = 0 }
end

local function finishedReservation(id)
  local done = '\n' .. (redis.call('HGET', accountKey(1), 'done') or '')
  local _, at = string.find(done, '\n' .. id .. ' ', 1, true)
  if not at then return nil end
  local given, unconfirmed, window = string.match(done, '^(%d+) (%d+) (%S+)', at + 1)
  return { reserved = 0, given = tonumber(given), unconfirmed = tonumber(unconfirmed), window = window, final = window == '=' }
end

local function finish(id, given, unconfirmed, window)
  local lines = {}
  for line in string.gmatch(redis.call('HGET', accountKey(1), 'done') or '', '[^\n]+') do
    if string.sub(line, 1, #id + 1) ~= id .. ' ' then lines[#lines + 1] = line end
  end
  lines[#lines + 1] = string.format('%s %.0f %.0f %s', id, given, unconfirmed, window)
  if #lines > remembered then table.remove(lines, 1) end
  redis.call('HSET', accountKey(1), 'done', table.concat(lines, '\n') .. '\n')
  redis.call('HDEL', accountKey(1), 'r:' .. id)
end

-- Releases `reserved` and adds to spent and unconfirmed in every account, the tenant's in the window of the reservation. When
-- that one is long past nothing is reserved there any more, and what is spent counts in the present one. Returns the window.
local function book(reservation, spent, unconfirmed)
  local booked = ARGV[2]
  for i = 1, accounts do
    local key, change = accountKey(i), { reserved = -reservation.reserved, spent = spent, unconfirmed = unconfirmed }
    if i == accounts and ARGV[2] ~= '-' and reservation.window ~= ARGV[2] then
      if reservation.window == ARGV[3] then
        key, booked = KEYS[lastKey], ARGV[3]
      else
        change = spent > 0 and { spent = spent, unconfirmed = unconfirmed } or {}
      end
    end
    for field, by in pairs(change) do
      if by ~= 0 then redis.call('HINCRBY', key, field, by) end
    end
  end
  return booked
end
