package command

// mergedScript is a release of many keys in one call, which announces the freed ones. KEYS are the
// keys, and ARGV their tokens and the waiters' channel (see NodeSet.WaitersChannel). It returns the
// number of keys if all held their tokens and nobody waits. Otherwise it returns one character for
// each key: 0 if the key did not hold its token, 1 if it was deleted, 2 if somebody waits for it as
// well.
//
// Redis takes longer to begin a script than to execute this one for a key. MGET, unlike GET, returns
// nothing for a key of another type. The rights to PUBSUB and PUBLISH may be missing: as after a
// release of one key, others are then taken to wait.
var mergedScript = script("release+merge", "709f487237c64ff3fadd3d0392b7366cb55657a3", `
local n = #KEYS
local values = redis.call('MGET', unpack(KEYS))
local ours = 0
for i = 1, n do
  if values[i] == ARGV[i] then ours = ours + 1 end
end
local waiting = redis.pcall('PUBSUB', 'NUMSUB', ARGV[n+1])
waiting = waiting.err or waiting[2] ~= 0
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
    local heard = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
    for j = 1, ours do
      if heard.err or heard[2*j] ~= 0 then
        redis.pcall('PUBLISH', channels[j], '')
        out[at[j]] = '2'
      end
    end
  end
end
return table.concat(out)
`)

// MaxMerged bounds the releases of one call: a script with many keys delays other commands.
const MaxMerged = 64

// Mergeable reports whether the command is a release that may be sent in one call with others. It has
// one key, is announced, is not sent for the second time, is not subscribed to by its own process, and
// is not the first half of a handoff.
func (c *Command) Mergeable() bool {
	return c.mergeable && c.NodeSet != nil && c.Retries == 0 && !c.WasResent() && !c.UsesEval()
}

// MergedCall returns the call of several mergeable releases of one node set, with different keys. It
// appends the arguments to args. With source true the script is sent by its text.
func MergedCall(args []any, source bool, releases []*Command) (name string, all []any) {
	if source {
		name, args = "EVAL", append(args, mergedScript.Source)
	} else {
		name, args = "EVALSHA", append(args, mergedScript.hash)
	}
	args = append(args, small(len(releases)))
	for _, c := range releases {
		args = append(args, c.args[mergedKey])
	}
	for _, c := range releases {
		args = append(args, c.args[mergedToken])
	}
	return name, append(args, releases[0].NodeSet.WaitersChannel)
}

// Where an announced release of one key has its key and its token: behind the hash and the number of
// keys.
const mergedKey, mergedToken = 2, 3
