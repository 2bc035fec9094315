package command

import "strings"

// The parts of scripts. KEYS are the n keys of the lock, followed by their n counters with
// fencing. ARGV begins with the token.

// How many of KEYS belong to the lock. With the guard the marker is the last of them.
const (
	plain         = "local n = #KEYS\n"
	fenced        = "local n = #KEYS / 2\n"
	plainGuarded  = "local n = #KEYS - 1\n"
	fencedGuarded = "local n = (#KEYS - 1) / 2\n"
)

const done = `return 1
`

// bounds checks the TTL and the longest one allowed.
const bounds = `
local ttl, most = tonumber(ARGV[2]), tonumber(ARGV[3])
if not ttl or not most or ttl < 10 or ttl > most then
  return redis.error_reply('ERR redlock: TTL out of bounds')
end
`

// free refuses if any key but the first exists. take checks the first one itself.
const free = `
for i = 2, n do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
`

// take acquires all keys, or refuses if the first exists. A SET with NX checks and writes in one
// call, and the number of calls determines how long a script takes.
const take = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
for i = 2, n do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
`

// mine lists the keys that hold the token. GET is a pcall because a key of another type does not
// hold it. Any other error is the answer (the right to GET may be missing): "not ours" would be a
// vote, and would end a lock that is held (H30).
const mine = `
local mine = {}
for i = 1, n do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  if value == ARGV[1] then mine[#mine+1] = KEYS[i] end
end
`

// giveBack deletes the keys that hold the token, runs each after every deletion, and counts them.
// It is one pass, without a list of the keys, because every release pays for it. An error in the
// middle therefore comes after keys that are deleted already, which does no harm in a release.
func giveBack(each string) string {
	return `
local found, others = 0, 0
for i = 1, n do
  local key = KEYS[i]
  local value = redis.pcall('GET', key)
  if value == ARGV[1] then
    redis.call('DEL', key)
    found = found + 1` + each + `
  elseif type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value
  end
end
return found + others * (n + 1)
`
}

// announce publishes that a key is free, if another process listens: how long the holder had waited, in
// microseconds (ARGV[3]), and how many processes listen. pass only counts them. The key is deleted
// by then, so a failure of these (the rights may be missing) is no error. ARGV[2] is how many of the
// subscribers are our own. others is 2 if another process waits, and 1 if that can't be known, also because
// processes with this user could not subscribe (Redis 7 tells).
const (
	announce = `
    local channel = 'redlock:free:' .. key
    local counted = redis.pcall('PUBSUB', 'NUMSUB', channel)
    local waiters = counted[2] and counted[2] - ARGV[2]
    if waiters and waiters > 0 then
      redis.pcall('PUBLISH', channel, ARGV[3] .. ' ' .. waiters)
      others = 2
    elseif not waiters then
      local heard = redis.pcall('PUBLISH', channel, ARGV[3])
      if type(heard) ~= 'number' then others = math.max(others, 1) elseif heard > tonumber(ARGV[2]) then others = 2 end
    end`
	pass = `
    local channel = 'redlock:free:' .. key
    local counted = redis.pcall('PUBSUB', 'NUMSUB', channel)
    if counted[2] and counted[2] > tonumber(ARGV[2]) then
      others = 2
    elseif not counted[2] or redis.acl_check_cmd and not redis.acl_check_cmd('SUBSCRIBE', channel) then
      others = math.max(others, 1)
    end`
)

// announceEnd is announce for a key that ends after left.
var announceEnd = strings.NewReplacer(
	"ARGV[3] .. ' ' .. waiters", "ARGV[5] .. ' ' .. waiters .. ' ' .. left", "ARGV[3]", "ARGV[5] .. ' 0 ' .. left", "ARGV[2]", "ARGV[4]",
).Replace(announce)

// all refuses if any key does not hold the token.
const all = `
if #mine < n then return 0 end
`

const lengthen = `
for _, key in ipairs(mine) do
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ARGV[2]) end
end
`

// gone lists the missing keys, and refuses if another token holds one.
const gone = `
local gone = {}
for i = 1, n do
  local value = redis.pcall('GET', KEYS[i])
  if not value then gone[#gone+1] = KEYS[i] elseif value ~= ARGV[1] then return 0 end
end
`

const restore = `
for _, key in ipairs(gone) do redis.call('SET', key, ARGV[1], 'PX', ARGV[2]) end
`

// inspectKeys returns the size instead of the value if the value is longer than any token: queries must
// not download a value of many megabytes.
const inspectKeys = `
local seen = {}
for i = 1, n do
  local kind = redis.call('TYPE', KEYS[i]).ok
  local value = ''
  if kind == 'string' then
    value = redis.call('STRLEN', KEYS[i])
    if value <= 256 then value = redis.call('GET', KEYS[i]) end
  end
  seen[#seen+1] = kind
  seen[#seen+1] = value
  seen[#seen+1] = redis.call('PTTL', KEYS[i])
end
return seen
`

// now is the node's time in microseconds. limit is the end of the whole numbers that doubles
// represent exactly. Microseconds reach it in the year 2255.
const now = `
local limit = 9007199254740992
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
`

// before reads a fence counter, inside a loop over them, or returns what is wrong with it.
const before = `
  local before = redis.pcall('GET', KEYS[i]) or 0
  if type(before) == 'table' and not string.find(before.err, 'WRONGTYPE', 1, true) then return before end
  before = tonumber(before)
  if not before or before % 1 ~= 0 or before < 0 or before >= limit then
    return redis.error_reply('ERR redlock: a fence counter holds no number below 2^53: delete it where no resource remembers its fences')
  end
`

// bump computes the number of a grant: above the counters of all keys, and at least the client's
// time as far as the node's time confirms it (docs/dev/rules.md rules 12 and 13).
const bump = now + `
local hint, clamp = tonumber(ARGV[4]), tonumber(ARGV[5])
local c = hint
if c > now + clamp then c = now + clamp elseif c < now - clamp then c = now - clamp end
for i = n + 1, 2 * n do` + before + `
  if before >= c then c = before + 1 end
end
if c >= limit then return redis.error_reply('ERR redlock: a fence counter has reached 2^53') end
local number = ARGV[4]
if c ~= hint then number = string.format('%.0f', c) end
` + life

// raiseAll writes the number to every counter, and returns it relative to the hint.
const raiseAll = `
for i = n + 1, 2 * n do redis.call('SET', KEYS[i], number, 'PX', life) end
if c < hint then return c - hint end
return c - hint + 1
`

// carried takes the number from an argument, and finds the counters below it.
func carried(arg string) string {
	return now + "local number = " + arg + `
local c = tonumber(number)
if not c or c < 1 or c >= limit then return redis.error_reply('ERR redlock: fence out of bounds') end
local low = {}
for i = n + 1, 2 * n do` + before + `
  if before < c then low[#low+1] = KEYS[i] end
end
` + life
}

// life is the TTL of a counter: 7 days, and the second that a hint may be ahead of the node's
// time, or longer if it is further ahead (docs/dev/hazards.md H91, H99).
const life = `
local life = '604801000'
if c > now + 1000000 then life = string.format('%.0f', 604800000 + math.ceil((c - now) / 1000)) end
`

const raise = `
for _, key in ipairs(low) do redis.call('SET', key, number, 'PX', life) end
`
