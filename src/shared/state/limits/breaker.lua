--[[ One step of the circuit breaker of a model, by the clock of Redis.
KEYS[1] state
ARGV[1] fail, succeed, probe, release or look  [2] token of the caller's probe, '' without one  [3] failures that open it
ARGV[4] cooldown in ms  [5] lease of a probe in ms  [6] channel on which changes are published  [7] target
Returns {failures, ms until it may be probed or -1 when closed, 1 when the caller has the probe, ms for which a probe is
out, microseconds of now}. The state is gone when it is closed without failures. ]]
local op, token, threshold, cooldown = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local at = string.format('%d%06d', tonumber(time[1]), tonumber(time[2]))
local state = redis.call('HMGET', KEYS[1], 'failures', 'openUntil', 'probe', 'probeUntil')
local failures, openUntil, probe, probeUntil = tonumber(state[1]) or 0, tonumber(state[2]), state[3] or '', tonumber(state[4]) or 0
if probeUntil <= now then probe = '' end
local isProbe, changed, renewed = token ~= '' and probe == token, false, false

if op == 'fail' then
  failures, changed = failures + 1, true
  if isProbe then probe, openUntil = '', now + cooldown
  elseif not openUntil and failures >= threshold then openUntil = now + cooldown end
elseif op == 'succeed' then
  -- The success of a call that was let through before it opened proves nothing now.
  if isProbe or not openUntil then failures, openUntil, probe, changed = 0, nil, '', true end
elseif op == 'release' then
  if isProbe then probe, changed = '', true end
elseif op == 'probe' then
  if openUntil and openUntil <= now and (probe == '' or isProbe) then
    changed, renewed = not isProbe, isProbe
    probe, probeUntil, isProbe = token, now + tonumber(ARGV[5]), true
  end
end

if changed and failures == 0 and not openUntil then
  redis.call('DEL', KEYS[1])
elseif changed or renewed then
  redis.call('HSET', KEYS[1], 'failures', failures, 'openUntil', openUntil or '', 'probe', probe, 'probeUntil', probe == '' and '' or probeUntil)
  redis.call('PEXPIRE', KEYS[1], math.max(3600000, 10 * cooldown))
end
local waitMs = openUntil and math.max(0, openUntil - now) or -1
local probedMs = probe ~= '' and math.max(0, probeUntil - now) or 0
if changed then
  redis.call('PUBLISH', ARGV[6], cjson.encode({ target = ARGV[7], failures = failures, waitMs = waitMs, probedMs = probedMs, at = at }))
end
return { failures, waitMs, (op == 'probe' and isProbe and probe == token) and 1 or 0, probedMs, at }
