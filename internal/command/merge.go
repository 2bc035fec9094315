package command

import "slices"

// mergedRelease is a release of many keys in one call, which announces the freed ones. KEYS are the
// keys, and ARGV their tokens, the waiters' channel (see Membership), and for each key how long
// its holder had waited, unless none had. It returns the number of keys if all held their tokens and nobody
// waits. Otherwise it returns one character for each key: 0 if the key did not hold its token, 1 if it was
// deleted, 2 if somebody waits for it as well, 3 if that can't be known.
//
// Redis takes longer to begin a script than to execute this one for a key. MGET, unlike GET, returns
// nothing for a key of another type. The rights to PUBSUB and PUBLISH may be missing: see announce.
var mergedRelease = script("release+merge", "535938de10bdd24edda05c69ed96571a338da054", `
local n = #KEYS
local values = redis.call('MGET', unpack(KEYS))
local ours = 0
for i = 1, n do
  if values[i] == ARGV[i] then ours = ours + 1 end
end
local waiting = redis.pcall('PUBSUB', 'NUMSUB', ARGV[n+1])[2] ~= 0
if ours == n and not waiting then
  redis.call('DEL', unpack(KEYS))
  return n
end
local out, mine, channels, at = {}, {}, {}, {}
for i = 1, n do
  out[i] = '0'
  if values[i] == ARGV[i] then
    out[i] = '1'
    mine[#mine+1], channels[#mine+1], at[#mine+1] = KEYS[i], 'redlock:free:' .. KEYS[i], i
  end
end
if ours > 0 then
  redis.call('DEL', unpack(mine))
  if waiting then
    local counted = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
    for j = 1, ours do
      local waiters, age = counted[2*j], ARGV[n+1+at[j]] or '0'
      if not waiters then
        local heard = redis.pcall('PUBLISH', channels[j], age)
        if type(heard) ~= 'number' then out[at[j]] = '3' elseif heard > 0 then out[at[j]] = '2' end
      elseif waiters ~= 0 then
        redis.pcall('PUBLISH', channels[j], age .. ' ' .. waiters)
        out[at[j]] = '2'
      end
    end
  end
end
return table.concat(out)
`)

// The scripts of merged acquires do for each key what the script of one acquire does. ARGV are the
// longest TTL, with fencing the bound of the hints, then of each acquire its token, its TTL and with
// fencing its hint, and with the guard the marker. They return the number of keys if each acquire by
// itself would have returned 1. Otherwise they return one value for each: what it would have returned,
// or its error. So a bad counter refuses its own key only.
//
// Each grant is a SET with NX, which checks and writes in one call. All keys are different, so that no
// grant decides about another one.
var (
	mergedGuarded       = script("acquire+guard+merge", "87acfb6ab8bb314a61fb74c72c5b9540d9bf2e34", plainGuarded, marked, mostOfAll, eachPlain, perKey)
	mergedFenced        = script("acquire+fence+merge", "92e28d1df31c08ec6f8a2072ff36d9210d7d3436", fenced, mostOfAll, now, eachFenced, perKey)
	mergedFencedGuarded = script("acquire+fence+guard+merge", "138c91440cc5e2e3eb160bc5bdfc26a798d0facd", fencedGuarded, marked, mostOfAll, now, eachFenced, perKey)
)

// NoMerging is the error of a merged call that executed nothing because the user lacks a right. Its code
// says so.
const NoMerging = "NOSCRIPT redlock: the user lacks the right to MGET"

const mostOfAll = `
local most = tonumber(ARGV[1])
if not most then return redis.error_reply('ERR redlock: TTL out of bounds') end
`

const eachPlain = `
local function acquire(i)
  local at = 2 * i
  local ttl = tonumber(ARGV[at+1])
  if not ttl or ttl < 10 or ttl > most then return redis.error_reply('ERR redlock: TTL out of bounds') end
  if not redis.call('SET', KEYS[i], ARGV[at], 'NX', 'PX', ARGV[at+1]) then return 0 end
  return 1
end
`

// eachFenced reads all counters by one MGET, which returns nothing for a missing key and for one of
// another type. Without the right to MGET nothing is executed, and each acquire is sent by itself, as
// if the server did not know this script.
const eachFenced = `
local clamp = tonumber(ARGV[2])
local counters = redis.pcall('MGET', unpack(KEYS, n + 1, 2 * n))
if counters.err then return redis.error_reply('` + NoMerging + `') end
local function acquire(i)
  local at, counter = 3 * i, KEYS[n+i]
  local ttl, hint = tonumber(ARGV[at+1]), tonumber(ARGV[at+2])
  if not ttl or ttl < 10 or ttl > most then return redis.error_reply('ERR redlock: TTL out of bounds') end
  local before = tonumber(counters[i])
  if not counters[i] and redis.call('EXISTS', counter) == 0 then before = 0 end
  if not before or before % 1 ~= 0 or before < 0 or before >= limit then
    return redis.error_reply('ERR redlock: a fence counter holds no number below 2^53: delete it where no resource remembers its fences')
  end
  local c = hint
  if c > now + clamp then c = now + clamp elseif c < now - clamp then c = now - clamp end
  if before >= c then c = before + 1 end
  if c >= limit then return redis.error_reply('ERR redlock: a fence counter has reached 2^53') end
  local number = ARGV[at+2]
  if c ~= hint then number = string.format('%.0f', c) end
` + life + `
  if not redis.call('SET', KEYS[i], ARGV[at], 'NX', 'PX', ARGV[at+1]) then return 0 end
  redis.call('SET', counter, number, 'PX', life)
  if c < hint then return c - hint end
  return c - hint + 1
end
`

const perKey = `
local out, ones = {}, 0
for i = 1, n do
  out[i] = acquire(i)
  if out[i] == 1 then ones = ones + 1 end
end
if ones == n then return n end
return out
`

// MaxMerged bounds the commands of one call: a script with many keys delays other commands.
const MaxMerged = 64

// A MergeKind is a kind of commands of one key each, of which several can be sent as one call.
type MergeKind uint8

const (
	// Alone is every other command.
	Alone MergeKind = iota
	// MergedRelease is a release that is announced, to which this process does not subscribe itself,
	// and which is not the first half of a handoff.
	MergedRelease
	// MergedAcquire is an acquire with fencing, with the restart guard, or with both. A plain acquire
	// costs less by itself.
	MergedAcquire
	// MergeKinds is the number of kinds.
	MergeKinds
)

func init() {
	acquireScripts.guarded.merged = mergedGuarded
	acquireScripts.fenced.merged = mergedFenced
	acquireScripts.fencedGuarded.merged = mergedFencedGuarded
	announceScripts.plain.merged = mergedRelease
}

// MergeKind returns in which calls the command may be sent. A command that was sent before, or that
// is sent by its text, goes alone.
func (c *Command) MergeKind() MergeKind {
	switch {
	case c.script == nil || c.script.merged == nil || c.alone || len(c.Keys) > 1 || c.ownSubscribers > 0:
		return Alone
	case c.Retries > 0 || c.WasResent() || c.UsesEval():
		return Alone
	case c.Op == Release:
		return MergedRelease
	}
	return MergedAcquire
}

// MergedCall returns the call of several commands that merge, with different keys. It appends the
// arguments to args: of releases the waiters' channel too, and of guarded acquires the marker. With source true the script is
// sent by its text.
func MergedCall(args []any, source bool, commands []*Command, waiters, marker any) (name string, all []any) {
	first := commands[0]
	name, args = first.script.merged.call(args, source)
	n, fenced := len(commands), first.number != nil
	keys := n
	if fenced {
		keys += n
	}
	if first.Guarded {
		keys++
	}
	args = append(args, small(keys))
	for _, c := range commands {
		args = append(args, c.keys()...)
	}
	if fenced {
		for _, c := range commands {
			args = append(args, c.counters()...)
		}
	}
	if first.Guarded {
		args = append(args, markerKey)
	}
	if first.Op == Release {
		for _, c := range commands {
			args = append(args, c.token())
		}
		args = append(args, waiters)
		if !slices.ContainsFunc(commands, func(c *Command) bool { return c.span > 0 }) {
			return name, args // nobody had waited, which is usual
		}
		for _, c := range commands {
			args = append(args, c.age())
		}
		return name, args
	}
	if args = append(args, milliseconds(first.MaxTTL)); fenced {
		args = append(args, microseconds(first.span))
	}
	for _, c := range commands {
		if args = append(args, c.token(), milliseconds(c.TTL)); fenced {
			args = append(args, c.number)
		}
	}
	if first.Guarded {
		args = append(args, marker)
	}
	return name, args
}
