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

// pipeConn is one connection's life. Its reader is the goroutine that calls run;
// its writer is a second one; a caller takes the writer's place for one batch
// where it can offer that to the socket.
type pipeConn struct {
	pipeline *pipeline
	raw      *rawConn
	facts    facts // changed by the reader, under lane.mu

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

	unfit       error         // why the server does not vote; nil when it does
	approved    *wire.NodeSet // whose commands were held against all this last, and may pass
	registered  map[*wire.NodeSet]bool
	healthTimer clock.Timer // of look
	health      health
	guards      map[*wire.NodeSet]*guardState

	answered atomic.Int64

	// Of whoever has the right to write:
	batch               []*wire.Command
	markers             []any // the markers that go behind their arguments; nil for most
	args                []any // made of both
	recentBatch         int   // how many commands came together of late: it fades by one with each write
	answeredAtLastBatch int64 // answered, when a batch was taken last
	writesWithoutReply  int   // how many batches were taken without an answer between

	silentSince clock.Instant // when row became too long

	answering  []*wire.Command          // the reader's: written, in order
	next       int                      // the reader's: the first of due that is unanswered
	unexecuted map[string]clock.Instant // the reader's: see noteAcquire

	timer        clock.Timer // of watch
	seen         int64       // watch's: answered when it last looked
	silentChecks int         // watch's: looks without an answer
}

func newPipeConn(l *pipeline, s *rawConn, f facts) *pipeConn {
	unfit := unfitError(l.node.findings(f.Facts))
	return &pipeConn{pipeline: l, raw: s, facts: f, unfit: unfit, wake: make(chan struct{}, 1), dead: make(chan struct{})}
}

// run reads until the connection ends, and returns why, with the writer joined.
func (pc *pipeConn) run() error {
	if pc.raw.in != nil {
		pc.raw.in.onUnfinished = pc.watchUnfinished
	}
	pc.writer.Go(pc.write)
	pc.fail(pc.read())
	pc.writer.Wait()
	pc.pipeline.mu.Lock()
	if pc.timer != nil {
		pc.timer.Stop()
	}
	pc.pipeline.mu.Unlock()
	return pc.err
}

// fail ends the connection; the first reason stands. Closing the socket is what
// frees a reader or writer that is blocked on it.
func (pc *pipeConn) fail(err error) {
	pc.once.Do(func() {
		pc.err = pc.raw.reason(err)
		close(pc.dead)
		pc.raw.abort()
	})
}

func (pc *pipeConn) isDead() bool {
	select {
	case <-pc.dead:
		return true
	default:
		return false
	}
}

func (pc *pipeConn) silent() bool { return pc.isDead() && errors.Is(pc.err, ErrSilent) }

// read matches replies to commands in order, until the connection ends.
func (pc *pipeConn) read() error {
	for {
		v, err := redis.ReceiveWithTimeout(pc.raw.redis, 0)
		if err != nil && pc.raw.redis.Err() != nil {
			return err
		}
		c := pc.nextAnswered()
		if c == nil {
			return errProtocol
		}
		pc.handleReply(c, v, err)
	}
}

// nextAnswered returns the command that a reply belongs to.
func (pc *pipeConn) nextAnswered() *wire.Command {
	if pc.next == len(pc.answering) {
		pc.pipeline.mu.Lock()
		pc.answering, pc.next = pc.unanswered.popAll(pc.answering[:0]), 0
		pc.pipeline.mu.Unlock()
		if len(pc.answering) == 0 {
			return nil
		}
	}
	c := pc.answering[pc.next]
	pc.answering[pc.next] = nil
	pc.next++
	pc.answered.Add(1)
	return c
}

func (pc *pipeConn) handleReply(c *wire.Command, v any, err error) {
	pc.pipeline.node.count.replies.Add(1)
	if err != nil && c.Retries == 0 && pc.roleChanged(err) { // before the answer, so that what its caller sends next waits for the dial
		pc.fail(fmt.Errorf("%w (%w)", errRoleChanged, serverError(withheld(err, pc.raw.password))))
	}
	if c.Op == wire.Examine {
		pc.onInfo(v, withheld(err, pc.raw.password))
		c.Answer(wire.Reply{Outcome: wire.Granted})
		return
	}
	if pc.redirect(c, err) {
		return
	}
	r := pc.pipeline.node.resolver.discardStale(c, pc.raw.address, decode(c, v, err, pc.raw.password))
	if unscripted(c, r) && c.UnmarkForEval() {
		pc.pipeline.requeue(c)
		return
	}
	pc.noteAcquire(c, r) // this answer is its last one
	if isUnmarked(c, r) {
		pc.parkOrAnswer(c, r)
		return
	}
	if c.Op.Undoes() {
		r.WillRetry, r.Retrying = pc.pipeline.retry(c, r, pc.nothingToUndo(c))
	}
	if c.Op == wire.Acquire && err != nil && r.Outcome != wire.Refused || c.Op.Undoes() && err == nil && pc.health.failed > 0 {
		pc.checkSoon() // the answer says that the server's state has changed
	}
	if pc.pipeline.node.shard != nil && c.ReportWaiters {
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

// unansweredCommands returns what was written and not answered, in order, once reader and
// writers have ended. Called under lane.mu.
func (pc *pipeConn) unansweredCommands() []*wire.Command {
	left := append([]*wire.Command(nil), pc.answering[pc.next:]...)
	return pc.unanswered.popAll(left)
}
