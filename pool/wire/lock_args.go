package wire

// LockArgs of a request that several of them share: a lock's keys and token are
// the arguments of all its requests, and boxing a string into an interface
// costs an allocation each time.
type LockArgs struct {
	Keys  []string
	Token string
	boxed []any // the keys, then the token
	one   [2]any

	counters []any // the keys' fence counters; nil without fencing
	counter  [1]any

	// Guarded: under the restart guard.
	Guarded bool
}

// Reserved begins every key that is no lock, and every channel of ours.
const Reserved = "redlock:"

// FreePrefix stands before a lock's key in the name of the channel on which its release
// is published.
const FreePrefix = Reserved + "free:"

// DoctorPrefix stands before the random part of the key on which an Examine tries rights.
const DoctorPrefix = Reserved + "doctor:"

// FencePrefix stands before a lock's key in the key of its fence counter.
const FencePrefix = Reserved + "fence:"

// Set fills the terms in place.
func (t *LockArgs) Set(keys []string, token string) {
	t.Keys, t.Token = keys, token
	t.boxed = t.one[:0]
	for _, k := range keys {
		t.boxed = append(t.boxed, k)
	}
	t.boxed = append(t.boxed, token)
}

// SetCounters adds the keys' fence counters, tagged where any node is a Redis Cluster.
func (t *LockArgs) SetCounters(tagged bool) {
	t.counters = t.counter[:0]
	for _, k := range t.Keys {
		t.counters = append(t.counters, FenceKey(k, tagged))
	}
}

func (t *LockArgs) keys() []any { return t.boxed[:len(t.Keys)] }

func (t *LockArgs) token() any { return t.boxed[len(t.Keys)] }
