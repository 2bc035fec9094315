package command

import (
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/go-redlock/internal/guard"
)

// NewAcquire fills r with an Acquire. One key takes a plain SET NX PX, as in the Redis
// documentation. Several keys take one script, so that a node grants all or none, and so does an
// acquire under the guard.
func NewAcquire(r *Request, t *LockArgs, ttl, maxTTL time.Duration) {
	r.fill(Acquire, t, acquireScripts, ttl, maxTTL, 0)
	if len(t.Keys) == 1 && !t.UnderGuard {
		r.script = nil
	}
}

// NewFencedAcquire fills r with an Acquire that increases the fence counters. hint is the Unix
// time in microseconds, and clamp how far from its own time a node accepts it. t must have
// counters.
func NewFencedAcquire(r *Request, t *LockArgs, ttl, maxTTL time.Duration, hint int64, clamp time.Duration) {
	r.fill(Acquire, t, acquireScripts, ttl, maxTTL, hint)
	r.span = clamp
}

// NewConfirm fills r with a Confirm of the fence. t must have counters.
func NewConfirm(r *Request, t *LockArgs, fence int64) {
	r.fill(Confirm, t, confirmScripts, 0, 0, fence)
}

// NewExtend fills r with an Extend, which carries the fence along unless it is 0. With a fence, t
// must have counters.
func NewExtend(r *Request, t *LockArgs, ttl, maxTTL time.Duration, fence int64) {
	r.fill(Extend, t, extendScripts, ttl, maxTTL, fence)
}

// NewRepair fills r with a Repair. t must be guarded. It carries the fence along as NewExtend
// does.
func NewRepair(r *Request, t *LockArgs, ttl, maxTTL time.Duration, fence int64) {
	r.fill(Repair, t, repairScripts, ttl, maxTTL, fence)
}

// NewRelease fills r with a Release.
func NewRelease(r *Request, t *LockArgs) { r.fill(Release, t, releaseScripts, 0, 0, 0) }

// NewAnnouncingRelease fills r with a Release that announces the freed keys on their channels: see Announces.
func NewAnnouncingRelease(r *Request, t *LockArgs, ownSubscribers int, age time.Duration) {
	r.fill(Release, t, announceScripts, 0, 0, 0)
	r.Announces(ownSubscribers, age)
}

// NewCountingRelease fills r with a Release that announces nothing, because the next holder in
// this process follows, and counts the subscribers.
func NewCountingRelease(r *Request, t *LockArgs, ownSubscribers int) {
	r.fill(Release, t, passScripts, 0, 0, 0)
	r.Announces(ownSubscribers, 0)
}

// NewShorten fills r with a Shorten to left, which announces when the keys end.
func NewShorten(r *Request, t *LockArgs, left, maxTTL time.Duration) {
	r.fill(Shorten, t, shortenScripts, left, maxTTL, 0)
	r.Announces(0, 0)
}

// NewInspect fills r with an Inspect of the keys. The token is not used.
func NewInspect(r *Request, t *LockArgs) { r.fill(Inspect, t, inspectScripts, 0, 0, 0) }

// NewPoll fills r with a Poll of the only key. It is one plain command and no script, and
// downloads no value.
func NewPoll(r *Request, t *LockArgs) { r.fill(Poll, t, forms{}, 0, 0, 0) }

// NewSweep fills r with a Sweep: each key is deleted that holds the token of the same index. A key may
// come several times.
func NewSweep(r *Request, keys, tokens []string) {
	args := append(make([]any, 0, 1+2*len(keys)), small(len(keys)))
	for _, s := range slices.Concat(keys, tokens) {
		args = append(args, s)
	}
	r.fillOther(Sweep, sweepScript, &call{args: args})
	r.LockArgs = &LockArgs{Keys: keys}
}

// NewVerifyMarker fills r with a VerifyMarker of the node of this name. It compares the marker
// with what the server itself reports, and decides. over allows a quarantine that has passed by
// the node's clock to end: a client that saw the quarantine begin waits for its own timer as well
// (docs/dev/hazards.md H100).
func NewVerifyMarker(r *Request, g *guard.Settings, node string, over bool) {
	end := "stay"
	if over {
		end = "end"
	}
	full := strconv.FormatInt(g.Quarantine(node).Milliseconds(), 10)
	r.fillOther(VerifyMarker, verifyScript, &call{args: []any{small(1), markerKey, guard.Version, g.Shared(node), full, end}})
}

// NewPing fills r with a Ping.
func NewPing(r *Request) { r.fillOther(Ping, nil, pingCall) }

// NewGuardedPing fills r with a Ping that only a node with the expected marker answers.
func NewGuardedPing(r *Request) {
	r.fillOther(Ping, pingScript, markerCall)
	r.Guarded = true
}

// NoChannels is the code of the error by which a node answers NewChannelsPing if rights are missing. The names of
// the commands follow it.
const NoChannels = "NOCHANNELS"

// NewChannelsPing fills r with a Ping that fails if the user lacks a right to the channel of the key's releases.
func NewChannelsPing(r *Request, key string) {
	r.fillOther(Ping, channelsScript, &call{args: []any{small(1), key}})
	r.LockArgs = &LockArgs{Keys: []string{key}}
}

// NewInfo fills r with an Info.
func NewInfo(r *Request) { r.fillOther(Info, nil, infoCall) }

// NewAsking returns ASKING, which precedes a command that a master of a Redis Cluster
// accepts for a slot that is being moved to it.
func NewAsking() *Command { return unowned(askingRequest) }

// Add adds the script that the command calls by its hash. It returns a command that loads the
// script, to be sent before that one. It returns nil if the set has the script, or there is none. The
// answer to the returned command does not matter: a script that could not be loaded is answered by
// NOSCRIPT, and is sent by its text then.
func (s *ScriptSet) Add(c *Command) *Command {
	script := c.script
	if c.Merged > 0 {
		script = script.merged
	}
	if script == nil || c.UsesEval() || *s&script.bit != 0 {
		return nil
	}
	*s |= script.bit
	return unowned(script.load)
}

// unowned returns a command that nobody waits for: its answer is matched and then dropped.
func unowned(r *Request) *Command {
	c := &Command{Request: r}
	c.MarkSent()
	return c
}
