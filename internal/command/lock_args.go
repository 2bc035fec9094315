package command

// LockArgs are the arguments that all requests of a lock share: its keys and its token. They are
// boxed once, because boxing a string into an interface costs an allocation each time.
type LockArgs struct {
	Keys  []string
	Token string
	boxed []any // the keys, then the token
	one   [2]any

	counters []any // the keys' fence counters; nil without fencing
	counter  [1]any

	// Guarded reports that the request is under the restart guard.
	Guarded bool
}

// Reserved is the prefix of every key of ours that is not a lock, and of every channel.
const Reserved = "redlock:"

// FreePrefix and a lock's key form the name of the channel on which its release is announced.
const FreePrefix = Reserved + "free:"

// WaitersChannel returns the channel to which every process subscribes, besides those of the names,
// that waits for any name with a key prefix. So one look tells whether any of many releases has to be
// announced.
func WaitersChannel(keyPrefix string) string { return FreePrefix + keyPrefix }

// DoctorPrefix and random characters form the key on which an Examine probes rights.
const DoctorPrefix = Reserved + "doctor:"

// FencePrefix and a lock's key form the key of its fence counter.
const FencePrefix = Reserved + "fence:"

// Set fills t in place.
func (t *LockArgs) Set(keys []string, token string) {
	t.Keys, t.Token = keys, token
	t.boxed = t.one[:0]
	for _, k := range keys {
		t.boxed = append(t.boxed, k)
	}
	t.boxed = append(t.boxed, token)
}

// SetCounters adds the keys of the fence counters, tagged if any node is a Redis Cluster.
func (t *LockArgs) SetCounters(tagged bool) {
	t.counters = t.counter[:0]
	for _, k := range t.Keys {
		t.counters = append(t.counters, FenceKey(k, tagged))
	}
}

func (t *LockArgs) keys() []any { return t.boxed[:len(t.Keys)] }

func (t *LockArgs) token() any { return t.boxed[len(t.Keys)] }
