package pool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// link is one connection's life. Its reader is the goroutine that calls run;
// its writer is a second one; a caller takes the writer's place for one batch
// where it can offer that to the socket.
type link struct {
	lane    *lane
	session *session
	facts   facts // changed by the reader, under lane.mu

	wake    chan struct{} // to the writer; holds one
	dead    chan struct{} // closed by fail
	once    sync.Once
	err     error // why; readable once dead is closed
	writer  sync.WaitGroup
	callers sync.WaitGroup

	// Guarded by lane.mu:
	writing    bool // somebody has the right to write, or the writer was woken to take it
	unanswered ring // written, in order, and not yet taken over by the reader
	sent       int64
	watching   bool

	unfit   error         // why the server does not vote; nil when it does
	cleared *wire.NodeSet // whose commands were held against all this last, and may pass
	joined  map[*wire.NodeSet]bool
	looks   clock.Timer // of look
	health  health
	guards  map[*wire.NodeSet]*guard

	answered atomic.Int64

	// Of whoever has the right to write:
	batch  []*wire.Command
	wants  []any // the markers that go behind their arguments; nil for most
	args   []any // made of both
	lately int   // how many commands came together of late: it fades by one with each write
	before int64 // answered, when a batch was taken last
	row    int   // how many batches were taken without an answer between

	silentSince clock.Instant // when row became too long

	due        []*wire.Command          // the reader's: written, in order
	next       int                      // the reader's: the first of due that is unanswered
	unexecuted map[string]clock.Instant // the reader's: see noteAcquire

	timer   clock.Timer // of watch
	seen    int64       // watch's: answered when it last looked
	strikes int         // watch's: looks without an answer
}

func newLink(l *lane, s *session, f facts) *link {
	unfit := verdict(l.node.findings(f.Facts))
	return &link{lane: l, session: s, facts: f, unfit: unfit, wake: make(chan struct{}, 1), dead: make(chan struct{})}
}

// run reads until the connection ends, and returns why, with the writer joined.
func (k *link) run() error {
	if k.session.in != nil {
		k.session.in.onUnfinished = k.watchUnfinished
	}
	k.writer.Go(k.write)
	k.fail(k.read())
	k.writer.Wait()
	k.lane.mu.Lock()
	if k.timer != nil {
		k.timer.Stop()
	}
	k.lane.mu.Unlock()
	return k.err
}

// fail ends the connection; the first reason stands. Closing the socket is what
// frees a reader or writer that is blocked on it.
func (k *link) fail(err error) {
	k.once.Do(func() {
		k.err = k.session.reason(err)
		close(k.dead)
		k.session.abort()
	})
}

func (k *link) isDead() bool {
	select {
	case <-k.dead:
		return true
	default:
		return false
	}
}

func (k *link) silent() bool { return k.isDead() && errors.Is(k.err, ErrSilent) }

// read matches replies to commands in order, until the connection ends.
func (k *link) read() error {
	for {
		v, err := redis.ReceiveWithTimeout(k.session.redis, 0)
		if err != nil && k.session.redis.Err() != nil {
			return err
		}
		c := k.heard()
		if c == nil {
			return errProtocol
		}
		k.settle(c, v, err)
	}
}

// heard returns the command that a reply belongs to.
func (k *link) heard() *wire.Command {
	if k.next == len(k.due) {
		k.lane.mu.Lock()
		k.due, k.next = k.unanswered.popAll(k.due[:0]), 0
		k.lane.mu.Unlock()
		if len(k.due) == 0 {
			return nil
		}
	}
	c := k.due[k.next]
	k.due[k.next] = nil
	k.next++
	k.answered.Add(1)
	return c
}

func (k *link) settle(c *wire.Command, v any, err error) {
	k.lane.node.count.replies.Add(1)
	if err != nil && c.Retries == 0 && k.turns(err) { // before the answer, so that what its caller sends next waits for the dial
		k.fail(fmt.Errorf("%w (%w)", errTurned, serverError(redacted(err, c.Token))))
	}
	if c.Op == wire.Examine {
		k.looked(v, err)
		c.Answer(wire.Reply{Outcome: wire.Granted})
		return
	}
	if k.redirect(c, err) {
		return
	}
	r := k.lane.node.follow.belated(c, k.session.address, decode(c, v, err))
	if unscripted(c, r) && c.UnmarkForEval() {
		k.lane.again(c)
		return
	}
	k.noteAcquire(c, r) // this answer is its last one
	if isUnmarked(c, r) {
		k.answerUnmarked(c, r)
		return
	}
	if c.Op.Undoes() {
		r.WillRetry, r.Retrying = k.lane.repeat(c, r, k.nothingToUndo(c))
	}
	if c.Op == wire.Acquire && err != nil && r.Outcome != wire.Refused || c.Op.Undoes() && err == nil && k.health.failed > 0 {
		k.lookSoon() // the answer says that the server's state has changed
	}
	if k.lane.node.member != nil && c.ReportWaiters {
		r.RemoteWaiters = r.Outcome != wire.Unknown // those who listen to other members are not counted there
	}
	if r.Outcome == wire.Refused && c.WasResent() {
		// What is not there any more it may have undone itself, the first time.
		r = wire.Reply{Outcome: wire.Unknown, Undone: true, Err: ErrDisconnected}
	}
	c.Answer(r)
}

// unscripted: the server does not know the script's hash (yet), and so executed
// nothing.
func unscripted(c *wire.Command, r wire.Reply) bool {
	return r.Outcome == wire.Failed && c.Scripted() && !c.UsesEval() && answeredBy(r.Err, "NOSCRIPT")
}

func answeredBy(err error, code string) bool {
	var se *wire.ServerError
	return errors.As(err, &se) && se.Code == code
}

// unheard returns what was written and not answered, in order, once reader and
// writers have ended. Called under lane.mu.
func (k *link) unheard() []*wire.Command {
	left := append([]*wire.Command(nil), k.due[k.next:]...)
	return k.unanswered.popAll(left)
}
