package command

// LockArgs are the arguments that all requests of a lock share: its keys, its token, and with fencing
// the keys' fence counters. They do not change once a request was submitted. They are boxed once,
// because boxing a string into an interface costs an allocation each time.
type LockArgs struct {
	Keys       []string
	UnderGuard bool // the lock is under the restart guard

	boxed []any  // the keys, the token, the counters
	one   [3]any // backs boxed for one key
}

// Reserved is the prefix of every key of ours that is not a lock, and of every channel.
const Reserved = "redlock:"

// FreePrefix and a lock's key form the name of the channel on which its release is announced.
const FreePrefix = Reserved + "free:"

// WaitersChannel returns the channel to which every process subscribes, besides those of the names,
// that waits for any name with a key prefix. So one look tells whether any of many releases has to be
// announced. A lock whose key is just that prefix has the same channel. Its releases are announced more
// often then, and a waiter for another name counts as one that waits for it.
func WaitersChannel(keyPrefix string) string { return FreePrefix + keyPrefix }

// FencePrefix and a lock's key form the key of its fence counter.
const FencePrefix = Reserved + "fence:"

// Set fills t in place.
func (t *LockArgs) Set(keys []string, token string) {
	t.Keys, t.boxed = keys, t.one[:0]
	if len(keys) > 1 {
		t.boxed = make([]any, 0, 2*len(keys)+1)
	}
	for _, k := range keys {
		t.boxed = append(t.boxed, k)
	}
	t.boxed = append(t.boxed, token)
}

// SetCounters adds the keys of the fence counters, tagged if any node is a Redis Cluster.
func (t *LockArgs) SetCounters(tagged bool) {
	for _, k := range t.Keys {
		t.boxed = append(t.boxed, FenceKey(k, tagged))
	}
}

// Token returns the token, or "" before Set.
func (t *LockArgs) Token() string {
	if len(t.boxed) == 0 {
		return ""
	}
	return t.token().(string) //nolint:forcetypeassert // see Set
}

func (t *LockArgs) keys() []any { return t.boxed[:len(t.Keys)] }

func (t *LockArgs) token() any { return t.boxed[len(t.Keys)] }

func (t *LockArgs) counters() []any { return t.boxed[len(t.Keys)+1:] }

// FenceKey returns the key of a key's fence counter. tagged is for Redis Clusters, where both
// must have one slot: by the key's own hash tag, or with the whole key as the tag. The keys {a}
// and a then share a counter, which only leaves gaps in their fences.
func FenceKey(key string, tagged bool) string {
	if !tagged || hashTag(key) != key {
		return FencePrefix + key
	}
	return FencePrefix + "{" + key + "}"
}

// CanHaveFenceKey reports whether the tagged counter has its key's slot. It has not if the key
// contains a brace that would end the tag early.
func CanHaveFenceKey(key string) bool { return hashTag(FenceKey(key, true)) == hashTag(key) }
