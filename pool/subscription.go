package pool

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Listener is told what happens on a Subscription, by one goroutine. It must not
// block.
type Listener interface {
	// Subscribed: from now on messages of the channel arrive. It is called again
	// after each re-dial: what was published in between is lost.
	Subscribed(channel string)
	// Message: somebody published on the channel. It is a hint, never a promise.
	Message(channel, payload string)
	// Down: the connection ended; nothing arrives until Subscribed is called again.
	Down(err error)
}

// Subscription is a connection of its own for pub/sub: a pipelined one can't carry
// it. It is dialled when the first channel is wanted, and again, with backoff,
// when it ends. Some seconds after the last channel was removed it is closed, and nothing
// is left of it. A server that refuses to subscribe is asked again after half a minute.
// It is safe for concurrent use, and none of its methods but Close waits for anything.
type Subscription struct {
	node     *Node
	listener Listener
	life     context.Context
	end      context.CancelFunc
	done     sync.WaitGroup
	wake     chan struct{} // something is wanted, or not any more; holds one

	redial  *backoff // run's
	refused bool     // run's: it was logged that the server refuses to subscribe

	mu      sync.Mutex      // guards what follows; nobody is called under it
	wanted  map[string]bool // true once SUBSCRIBE was sent on the present connection
	dropped []string        // to be unsubscribed
	keeping bool            // run runs
	closed  bool
}

// Subscribe makes a subscription without channels. It ends with the node at the latest;
// Close waits for its end.
func (n *Node) Subscribe(listener Listener) *Subscription {
	life, end := context.WithCancel(n.life)
	return &Subscription{
		node: n, listener: listener, life: life, end: end, redial: newBackoff(n.cfg),
		wake: make(chan struct{}, 1), wanted: make(map[string]bool),
	}
}

// Add wants messages of a channel from now on.
func (s *Subscription) Add(channel string) {
	s.mu.Lock()
	if _, ok := s.wanted[channel]; !ok {
		s.wanted[channel] = false
	}
	if !s.keeping && !s.closed {
		s.keeping = true
		s.done.Go(func() { s.run(s.life) })
	}
	s.mu.Unlock()
	s.wakeUp()
}

// Remove wants none of a channel's messages any more; some may still arrive.
func (s *Subscription) Remove(channel string) {
	s.mu.Lock()
	if sent, ok := s.wanted[channel]; ok {
		delete(s.wanted, channel)
		if sent {
			s.dropped = append(s.dropped, channel)
		}
	}
	s.mu.Unlock()
	s.wakeUp()
}

// Close ends the connection and waits until the listener is called no more.
func (s *Subscription) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.done.Wait()
}

func (s *Subscription) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// refusedPause is how long a server that refused to subscribe is not asked again: its
// operator has to change something first.
const refusedPause = 30 * time.Second

// run dials while something is wanted, until ctx is done.
func (s *Subscription) run(ctx context.Context) {
	for s.keepRunning(ctx) {
		heard, err := s.serve(ctx)
		s.refused = s.refused && heard == 0
		if errors.Is(err, ErrReplyLimit) {
			s.redial.violated(heard)
		} else {
			s.redial.ended(heard)
		}
		if ctx.Err() != nil || errors.Is(err, errUnwanted) {
			continue
		}
		s.listener.Down(withoutContextError(err))
		if errors.Is(err, errRefused) {
			if !s.refused {
				s.node.log("the server refuses SUBSCRIBE, waiters poll", err)
			}
			s.refused = true
			pause(ctx, s.node.cfg.Clock, refusedPause)
			continue
		}
		s.redial.pause(ctx)
	}
}

// keepRunning reports whether another connection is wanted. After false the next Add begins
// anew.
func (s *Subscription) keepRunning(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeping = ctx.Err() == nil && len(s.wanted) > 0
	return s.keeping
}

func (s *Subscription) hasChannels() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wanted) > 0
}

// serve runs one connection until it ends. It reports for how long that lived, and 0 when
// nothing was heard.
func (s *Subscription) serve(ctx context.Context) (heard time.Duration, err error) {
	c, err := s.node.dialReady(ctx)
	if err != nil {
		return 0, err
	}
	began := s.node.cfg.Clock.Now()
	p := &pubsubConn{s: s, raw: c, dead: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { p.fail(ErrClosed) })
	defer stop()
	s.resetSent()
	s.wakeUp()
	var writer sync.WaitGroup
	writer.Go(p.write)
	p.fail(p.read())
	writer.Wait()
	c.close()
	if p.received.Load() > 0 {
		heard = s.node.cfg.Clock.Now().Sub(began)
	}
	return heard, p.err
}

// resetSent: nothing was said on the new connection yet.
func (s *Subscription) resetSent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = nil
	for ch := range s.wanted {
		s.wanted[ch] = false
	}
}

// pendingChanges takes what is to be said: the channels to subscribe and to leave.
func (s *Subscription) pendingChanges() (join, leave []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch, sent := range s.wanted {
		if !sent {
			s.wanted[ch] = true
			join = append(join, ch)
		}
	}
	for _, ch := range s.dropped {
		if _, again := s.wanted[ch]; !again {
			leave = append(leave, ch)
		}
	}
	s.dropped = nil
	return join, leave
}
