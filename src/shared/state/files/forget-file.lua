--[[ Forgets a file.
KEYS[1] the file  KEYS[2] ends  KEYS[3] bytes  KEYS[4…] lists of ids, all files and by purpose
ARGV[1] id
Returns 1, or 0 when there is no such file. ]]
-- include ended-files
forget(ARGV[1])
return redis.call('UNLINK', KEYS[1])
