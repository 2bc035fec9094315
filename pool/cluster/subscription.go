package cluster

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
)

// places says at which masters channels are.
type places interface {
	ownerOf(channel string) *shard // the master that has the slot of a channel's key, or nil
	serves(sh *shard) bool         // a shard is that of a master, as far as the slot map says
	forget(s *subscription)        // it was closed
}

// subscription is a subscription to the channels of keys in a Cluster. It subscribes to each channel at
// the master of the key's slot, where a release of the key is published and the subscribers are counted. Each
// master has a connection of its own. When a slot moves, its channels move after the next slot map.
type subscription struct {
	places   places
	listener command.Listener

	// told is held while the listener is told of a change, so that it hears of changes in their order. mu may be
	// taken under it.
	told sync.Mutex

	// mu guards what follows. The mutex of the node may be taken under it, and the subscriptions at the masters are called
	// under it. The listener is not: it may call Add and Remove.
	mu       sync.Mutex
	channels map[string]*oneChannel
	at       map[*shard]*shardSubscription
	closed   bool
}

// oneChannel is one channel.
type oneChannel struct {
	at        *shardSubscription // nil while its slot has no master
	confirmed bool
}

// shardSubscription is the subscription at one master. It passes what it hears on to the whole one's listener.
type shardSubscription struct {
	command.Subscription
	of    *subscription
	heard bool // a channel was confirmed since the last Down; of.mu guards it
}

// Add subscribes to a channel, at once if the master of its slot is known.
func (s *subscription) Add(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channels[channel] == nil && !s.closed {
		c := &oneChannel{}
		s.channels[channel] = c
		c.moveLocked(channel, s.atLocked(s.places.ownerOf(channel)))
	}
}

// moveLocked subscribes at another master; nil: at none.
func (c *oneChannel) moveLocked(channel string, to *shardSubscription) {
	if c.at != nil {
		c.at.Remove(channel)
	}
	if c.at, c.confirmed = to, false; to != nil {
		to.Add(channel)
	}
}

// atLocked returns the subscription at a master, or nil without one.
func (s *subscription) atLocked(sh *shard) *shardSubscription {
	if sh == nil {
		return nil
	}
	one := s.at[sh]
	if one == nil {
		one = &shardSubscription{of: s}
		one.Subscription = sh.Subscribe(one)
		s.at[sh] = one
	}
	return one
}

// Remove unsubscribes from a channel.
func (s *subscription) Remove(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.channels[channel]; c != nil {
		c.moveLocked(channel, nil)
		delete(s.channels, channel)
	}
}

// Close ends the subscriptions at all masters.
func (s *subscription) Close() {
	s.places.forget(s)
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.at))
	s.mu.Unlock()
	for _, one := range all {
		one.Close()
	}
}

var errSlotMoved = errors.New("pool: the slot of a channel has moved")

// follow moves channels to the masters that have their slots now, and ends the subscriptions at those that are
// no longer masters. One goroutine calls it.
func (s *subscription) follow() {
	moved := false
	var gone []*shardSubscription
	s.told.Lock()
	s.mu.Lock()
	for channel, c := range s.channels {
		if s.closed {
			break
		}
		if to := s.atLocked(s.places.ownerOf(channel)); to != c.at {
			c.moveLocked(channel, to)
			moved = true
		}
	}
	for sh, one := range s.at {
		if !s.places.serves(sh) {
			delete(s.at, sh)
			gone = append(gone, one)
		}
	}
	s.mu.Unlock()
	if moved {
		s.downTold(errSlotMoved)
	}
	s.told.Unlock()
	for _, one := range gone { // not under told, which their goroutines may wait for
		one.Close()
	}
}

// downTold tells the listener that messages were lost, and then which channels are heard all the same. The caller
// holds told.
func (s *subscription) downTold(err error) {
	s.listener.Down(err)
	var heard []string
	s.mu.Lock()
	for channel, c := range s.channels {
		if c.confirmed {
			heard = append(heard, channel)
		}
	}
	s.mu.Unlock()
	for _, channel := range heard {
		s.listener.Subscribed(channel)
	}
}

// Subscribed passes a confirmation on, unless the channel has moved meanwhile.
func (one *shardSubscription) Subscribed(channel string) {
	s := one.of
	s.told.Lock()
	defer s.told.Unlock()
	s.mu.Lock()
	c := s.channels[channel]
	here := c != nil && c.at == one
	if here {
		c.confirmed, one.heard = true, true
	}
	s.mu.Unlock()
	if here {
		s.listener.Subscribed(channel)
	}
}

// Message passes a message on.
func (one *shardSubscription) Message(channel, payload string) {
	one.of.listener.Message(channel, payload)
}

// Down reports that the channels at this master are not heard, unless none was: otherwise each failed dial of one
// master would make the waiters at all others poll.
func (one *shardSubscription) Down(err error) {
	s := one.of
	s.told.Lock()
	defer s.told.Unlock()
	s.mu.Lock()
	lost := one.heard
	one.heard = false
	for _, c := range s.channels {
		if c.at == one {
			c.confirmed = false
		}
	}
	s.mu.Unlock()
	if lost {
		s.downTold(err)
	}
}
