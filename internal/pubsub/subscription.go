package pubsub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Subscription is a separate connection for pub/sub, which a pipelined connection cannot carry.
// It is dialled when the first channel is added, and again, with backoff, when it ends. It is
// closed some seconds after the last channel was removed. A server that refuses to subscribe is
// asked again after 30 s. A Subscription is safe for concurrent use, and only Close waits.
type Subscription struct {
	dial     func(ctx context.Context) (*transport.Conn, error)
	listener command.Listener
	log      func(msg string, err error)
	clock    clock.Clock
	life     context.Context
	end      context.CancelFunc
	done     sync.WaitGroup
	wake     signal.Signal // the channels have changed

	// Used by its goroutine only:
	redial  *transport.Redial
	refused bool // the refusal was logged

	mu      sync.Mutex      // guards what follows; the listener is never called under it, because it may call Add and Remove
	wanted  map[string]bool // true if SUBSCRIBE was sent on the present connection
	added   []string        // to be subscribed on the present connection, while they are wanted
	dropped []string        // to be unsubscribed on the present connection
	running bool            // there is a goroutine, which has not found the channels gone
	closed  bool
}

// New makes a Subscription without channels, which ends with life at the latest. dial returns a connection that was
// greeted. Of the settings it uses the pauses between dials, and the clock.
func New(
	life context.Context, s *transport.Settings, dial func(ctx context.Context) (*transport.Conn, error),
	listener command.Listener, log func(msg string, err error),
) *Subscription {
	life, end := context.WithCancel(life)
	return &Subscription{
		dial: dial, listener: listener, log: log, clock: s.Clock, life: life, end: end, redial: transport.NewRedial(s),
		wake: signal.New(), wanted: make(map[string]bool),
	}
}

// Add subscribes to a channel. It starts the connection if necessary. The goroutine is
// started under the mutex, so Close, which sets closed under it, either prevents the start or
// waits for the goroutine.
func (s *Subscription) Add(channel string) {
	s.mu.Lock()
	// A channel that is already wanted keeps its mark: it was sent, or will be.
	if _, ok := s.wanted[channel]; !ok {
		s.wanted[channel] = false
		s.added = append(s.added, channel)
	}
	// At most one goroutine runs a subscription, so at most one connection exists.
	if !s.running && !s.closed {
		s.running = true
		s.done.Go(func() { s.redial.Run(s.life, s.dialAndServe) }) // until there are no channels
	}
	s.mu.Unlock()
	s.wake.Set()
}

// Remove unsubscribes from a channel. Some of its messages may still arrive.
func (s *Subscription) Remove(channel string) {
	s.mu.Lock()
	if sent, ok := s.wanted[channel]; ok {
		delete(s.wanted, channel)
		// A channel that was never sent needs no UNSUBSCRIBE.
		if sent {
			s.dropped = append(s.dropped, channel)
		}
	}
	s.mu.Unlock()
	s.wake.Set()
}

// Close ends the connection and waits until the listener is no longer called.
func (s *Subscription) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	// Outside the mutex: the goroutine takes it on its way out.
	s.end()
	s.done.Wait()
}

// refusedPause is the pause before a server that refused to subscribe is asked again. Its
// operator has to change something first.
const refusedPause = 30 * time.Second

// dialAndServe makes one connection and serves it.
func (s *Subscription) dialAndServe(ctx context.Context) transport.Next {
	if !s.keepRunning() {
		return transport.Never
	}
	heard, err := s.serve(ctx)
	// A server that answered anything has changed, so a later refusal is logged again.
	s.refused = s.refused && heard == 0
	// A server that breaks the limits is dialled more and more rarely, because each time it may
	// cost memory.
	if errors.Is(err, resp.ErrLimit) {
		s.redial.Violated(heard)
	} else {
		s.redial.Ended(heard)
	}
	// A connection that ended by itself is no failure: nothing is reported and nothing paused.
	if ctx.Err() != nil || errors.Is(err, errUnwanted) {
		return transport.AtOnce
	}
	// No mutex is held here: the listener may call Add or Remove.
	s.listener.Down(transport.WithoutContext(err))
	if errors.Is(err, errRefused) {
		if !s.refused {
			s.log("server refuses SUBSCRIBE, so waiters poll, and may wait long beside processes with the right", err)
		}
		s.refused = true
		timer.Wait(s.clock, refusedPause, ctx.Done())
		return transport.AtOnce
	}
	return transport.AfterPause
}

// keepRunning reports whether another connection is needed. It decides under the mutex of Add:
// after false the next Add starts a new goroutine.
func (s *Subscription) keepRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// There is no connection that they concern, and resetSent starts from wanted. They would grow while none can be made.
	s.added, s.dropped = nil, nil
	s.running = len(s.wanted) > 0
	return s.running
}

// hasChannels reports whether there are channels.
func (s *Subscription) hasChannels() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wanted) > 0
}

// serve runs one connection until it ends. It returns how long the connection lasted, or 0 if
// nothing was received.
func (s *Subscription) serve(ctx context.Context) (heard time.Duration, err error) {
	c, err := s.dial(ctx)
	if err != nil {
		return 0, err
	}
	began := s.clock.Now()
	p := &conn{of: s, raw: c}
	// The end of ctx closes the socket, which ends both goroutines below.
	stop := context.AfterFunc(ctx, func() { c.End(ctx.Err()) })
	defer stop()
	// Before the writer starts: the new connection has no channel yet. The signal then makes the
	// writer subscribe to all.
	s.resetSent()
	s.wake.Set()
	var writer sync.WaitGroup
	writer.Go(p.write)
	// This goroutine is the reader. When it ends, fail releases the writer.
	err = p.read()
	c.End(err)
	writer.Wait()
	// Only now, when neither goroutine uses the connection.
	c.Close()
	if p.received.Load() > 0 {
		heard = s.clock.Now().Sub(began)
	}
	if errors.Is(err, resp.ErrLimit) {
		return heard, err // redigo closes the socket before read returns, so the writer may have failed first
	}
	return heard, c.Err()
}

// resetSent marks all channels as not yet subscribed on a new connection.
func (s *Subscription) resetSent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added, s.dropped = s.added[:0], nil
	for ch := range s.wanted {
		s.wanted[ch] = false
		s.added = append(s.added, ch)
	}
}

// pendingChanges returns the channels to subscribe and to unsubscribe, and marks them as sent. A
// channel that was added again after its removal is not unsubscribed. It takes no time for the
// channels that have not changed: there may be thousands.
func (s *Subscription) pendingChanges() (join, leave []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.added {
		if sent, ok := s.wanted[ch]; ok && !sent {
			// Marked before it is written: if the write fails the connection ends, and resetSent
			// clears the mark.
			s.wanted[ch] = true
			join = append(join, ch)
		}
	}
	for _, ch := range s.dropped {
		if _, again := s.wanted[ch]; !again {
			leave = append(leave, ch)
		}
	}
	s.added, s.dropped = nil, nil
	return join, leave
}
