package command

import "strings"

// scripts are all scripts.
var scripts []*Script

// Scripts returns all scripts.
func Scripts() []*Script { return scripts }

func script(name, hash string, parts ...string) *Script {
	s := &Script{Name: name, Source: strings.Join(parts, ""), Hash: hash, hash: hash, load: &Request{}}
	s.bit = 1 << len(scripts)
	s.load.fillOther(Ping, nil, &call{name: "SCRIPT", args: []any{"LOAD", s.Source}})
	scripts = append(scripts, s)
	return s
}

// The scripts. Their parts are in lua.go, and those of the guard in verify.go.
var (
	// acquireScripts acquires all keys for the token or none: 1 or 0.
	acquireScripts = forms{
		plain:   script("acquire", "04c017ba14d57ed5eb3e41b19a036816c7593588", plain, bounds, free, take, done),
		guarded: script("acquire+guard", "7efbe13a3de6c0b4023d7ae91cf80e25176d59ad", plainGuarded, marked, bounds, free, take, done),

		// With fencing it also increases every counter to one number, and returns that number relative to the hint: see
		// decodeFence in internal/reply.
		fenced:        script("acquire+fence", "26036524028550794ee4e25ace337faa40f9a33e", fenced, bounds, free, bump, take, raiseAll),
		fencedGuarded: script("acquire+fence+guard", "526fe1b2c6794072b173256399dc4ae11b8f131d", fencedGuarded, marked, bounds, free, bump, take, raiseAll),
	}

	// extendScripts extends all keys or none: 1 or 0. With the guard it returns -1 if it has
	// extended them and the marker is not the expected one.
	extendScripts = forms{
		plain:   script("extend", "65e18df4b54df40558526f2f2c2e86773182e379", plain, bounds, mine, all, lengthen, done),
		guarded: script("extend+guard", "45e469d78c3abf9dc668cb4b0bfd4a408d1ea9ba", plainGuarded, compared, bounds, mine, all, lengthen, doneMarked),

		// With fencing it also carries the fence along (docs/dev/rules.md rule 14).
		fenced:        script("extend+fence", "2daef38ceb702056b38612a130dca4b7024b9fe9", fenced, bounds, mine, all, carried("ARGV[4]"), lengthen, raise, done),
		fencedGuarded: script("extend+fence+guard", "68f9b0c99dc7cfe6eb1185cb9f14a71f4daae4c7", fencedGuarded, compared, bounds, mine, all, carried("ARGV[4]"), lengthen, raise, doneMarked),
	}

	// confirmScripts raises every counter to the fence, only while all keys hold the token: 1 or 0,
	// or -1 as in extendScripts. Nothing weaker is sound (docs/dev/rules.md rule 12).
	confirmScripts = forms{
		fenced:        script("confirm", "7c134e2aa18d750c74eab64775948d497ada3930", fenced, mine, all, carried("ARGV[2]"), raise, done),
		fencedGuarded: script("confirm+guard", "0999bb6e562eb27daff583d7f9f2fae4307d9a2f", fencedGuarded, compared, mine, all, carried("ARGV[2]"), raise, doneMarked),
	}

	// repairScripts creates the missing keys again if all others hold the token or are missing as
	// well: 1 or 0. It exists only with the guard (docs/dev/rules.md rule 9).
	repairScripts = forms{
		guarded:       script("repair+guard", "5d2758857b74be4c13ca7a28fa5e17d305fff259", plainGuarded, marked, bounds, gone, restore, done),
		fencedGuarded: script("repair+fence+guard", "08ce26ca4f3cbe30d9118bf5eb25653b8bbbf84d", fencedGuarded, marked, bounds, gone, carried("ARGV[4]"), restore, raise, done),
	}

	// releaseScripts deletes the keys that hold the token and returns their number.
	releaseScripts = forms{plain: script("release", "800b8e3392c1c0588e9cea785c3fd41e20c3a31e", plain, giveBack(""))}

	// announceScripts is a release that announces the freed keys, and passScripts one that only checks
	// whether other processes wait: see decodeRelease in internal/reply.
	announceScripts = forms{plain: script("release+announce", "e715a1df7b5464519b25c09fa6a8c054cb64f943", plain, giveBack(announce))}
	passScripts     = forms{plain: script("release+pass", "dfc243ec0bed0c9336cfde6d861406515e8693ae", plain, giveBack(pass))}

	// shortenScripts is a release that leaves the keys for the rest of a minimum hold, even a key
	// whose expiry was removed. It returns the number of keys that hold the token.
	// It announces the end of each key, as announceScripts do a release, with what is left of the key in milliseconds.
	shortenScripts = forms{plain: script("shorten", "3509cf54d9fd86277cd3de9649b5cce102fdf5fc", plain, bounds, mine, `
local others = 0
for _, key in ipairs(mine) do
  local left = redis.call('PTTL', key)
  if left < 0 or left > ttl then
    redis.call('PEXPIRE', key, ARGV[2])
    left = ARGV[2]
  end`+announceEnd+`
end
return #mine + others * (n + 1)
`)}

	// inspectScripts returns three values for each key: its type, its value if it is a string (its
	// size if that is above 256 bytes), and its TTL in milliseconds (-1: no expiry, -2: no key).
	inspectScripts = forms{
		plain:   script("inspect", "b2be7cd6059048632ba2c9e215700169960cc123", plain, inspectKeys),
		guarded: script("inspect+guard", "9fa89495abbe1624f78a4efc8c723802acdd00c4", plainGuarded, marked, inspectKeys),
	}

	// pingScript answers PONG if the marker is the expected one.
	pingScript = script("ping+guard", "ba1d2af9f5b8173a68641bfb779bb2ac7b5f8a82", marked, `return redis.status_reply('PONG')
`)

	// sweepScript deletes each key that holds its own token, and announces it. It returns their number.
	// It deletes what acquires made that were executed late: hardly ever anything.
	sweepScript = script("sweep", "0bd5db429c4394ac920625b09304b03c3c512923", plain, `
local found = 0
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) == ARGV[i] then
    redis.call('DEL', KEYS[i])
    redis.pcall('PUBLISH', 'redlock:free:' .. KEYS[i], '')
    found = found + 1
  end
end
return found
`)

	// channelsScript answers PONG if the user may announce releases of the key, hear of them, and count who does, or if
	// the server can't tell (before Redis 7). Its error has the code NoChannels and the commands that are missing.
	channelsScript = script("channels", "654d5f3be8346ca02040767498feb584d842410d", `
local missing, channel = {}, 'redlock:free:' .. KEYS[1]
for _, call in ipairs({{'PUBLISH', channel}, {'SUBSCRIBE', channel}, {'PUBSUB', 'NUMSUB', channel}}) do
  if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(call)) then missing[#missing+1] = call[1] end
end
if #missing > 0 then return redis.error_reply('NOCHANNELS ' .. table.concat(missing, ' ')) end
return redis.status_reply('PONG')
`)

	// verifyScript alone decides about a node's marker: see verify.go.
	verifyScript = script("verify", "4b8cd515529ed38114ce4737d1bc7876b3e69f68", verify)
)
