package wire

// What scripts are made of. KEYS are the lock's n keys, and with fencing the n
// counters behind them. ARGV begins with the token.

// How many of KEYS are the lock's. With the guard the marker is the last of them.
const (
	plain         = "local n = #KEYS\n"
	fenced        = "local n = #KEYS / 2\n"
	plainGuarded  = "local n = #KEYS - 1\n"
	fencedGuarded = "local n = (#KEYS - 1) / 2\n"
)

const done = `return 1
`

// bounds checks a TTL and the longest one allowed.
const bounds = `
local ttl, most = tonumber(ARGV[2]), tonumber(ARGV[3])
if not ttl or not most or ttl < 10 or ttl > most then
  return redis.error_reply('ERR redlock: TTL out of bounds')
end
`

// free refuses when any key stands but the first, which take finds out by itself.
const free = `
for i = 2, n do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
`

// take takes all keys, or refuses when the first stands: a SET with NX is both in one
// call, and calls are what scripts take their time for.
const take = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
for i = 2, n do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
`

// mine lists the keys that hold the token. GET is a pcall because a key of another
// type is simply not ours. Any other error is the answer (the right to GET may be
// missing): "not ours" would be a vote, and end a lock that is held (H30).
const mine = `
local mine = {}
for i = 1, n do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  if value == ARGV[1] then mine[#mine+1] = KEYS[i] end
end
`

// giveBack deletes the keys that hold the token, does each behind that, and counts them. It
// is one pass, without a list of what is ours: every lock pays for it. So an error in the
// middle would come behind keys that are deleted already, which does a release no harm.
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

// announce publishes that a key is free, and pass only counts who would hear it. The key is
// deleted by then: what these can't do (the rights may be missing) is no error. ARGV[2]
// is how many of those who listen are ourselves.
const (
	announce = `
    local heard = redis.pcall('PUBLISH', 'redlock:free:' .. key, '')
    if heard ~= 0 and (type(heard) ~= 'number' or heard > tonumber(ARGV[2])) then others = 1 end`
	pass = `
    local heard = redis.pcall('PUBSUB', 'NUMSUB', 'redlock:free:' .. key)
    if heard.err or tonumber(heard[2]) > tonumber(ARGV[2]) then others = 1 end`
)

// all refuses when any key is not ours.
const all = `
if #mine < n then return 0 end
`

const lengthen = `
for _, key in ipairs(mine) do
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ARGV[2]) end
end
`

// gone lists the keys that are not there, and refuses when another token holds one.
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

// look answers the size in the place of a value that is longer than any token: a value of
// many megabytes must not be downloaded by every query.
const look = `
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

// now is the node's time in microseconds, and limit the end of what doubles hold exactly:
// microseconds reach it in the year 2255.
const now = `
local limit = 9007199254740992
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
`

// before reads a fence counter, in a loop over them, or answers what is wrong with it.
const before = `
  local before = redis.pcall('GET', KEYS[i]) or 0
  if type(before) == 'table' and not string.find(before.err, 'WRONGTYPE', 1, true) then return before end
  before = tonumber(before)
  if not before or before % 1 ~= 0 or before < 0 or before >= limit then
    return redis.error_reply('ERR redlock: a fence counter holds no number below 2^53: delete it where no resource remembers its fences')
  end
`

// bump finds the number of a grant: above the counters of all keys, and at least the
// client's time as far as the node's own bears it out (docs/rules.md rules 12 and 13).
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

// raiseAll writes the number to every counter, and answers it as seen from the hint.
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

// life is that of a counter: 7 days, and the second that a hint may be ahead of the node's
// time, or longer if it is by more (docs/hazards.md H91, H99).
const life = `
local life = '604801000'
if c > now + 1000000 then life = string.format('%.0f', 604800000 + math.ceil((c - now) / 1000)) end
`

const raise = `
for _, key in ipairs(low) do redis.call('SET', key, number, 'PX', life) end
`
