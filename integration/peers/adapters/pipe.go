package adapters

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Bare is the name of the limit that uses connections best. It shows what a lock could still gain.
const Bare = "bare pipelining, redigo"

// pipeline sends the commands of a Redlock over one connection to each server, which all callers
// share. It returns when a majority has answered. It has no token for each lock, no timeout, no
// undo, no context and no clock. The difference to a lock on the same servers is the cost of those.
var pipeline = Kind{
	Name:  Bare,
	Note:  "no lock",
	Limit: true,
	Sends: plainCommands,
	Open: func(_ context.Context, servers []string, o Options) (Adapter, error) {
		p := &pipes{all: make([]*pipe, len(servers)), ttl: o.ttl()}
		for i, server := range servers {
			c, err := redis.Dial("tcp", server)
			if err == nil {
				_, err = c.Do("SCRIPT", "LOAD", releaseSource)
			}
			if err != nil {
				return nil, errors.Join(err, p.Close())
			}
			p.all[i] = newPipe(c)
		}
		return p, nil
	},
}

type pipes struct {
	all []*pipe
	ttl time.Duration
}

func (p *pipes) Acquire(_ context.Context, name string) (Hold, error) {
	if err := p.ask("SET", name, fanoutToken, "NX", "PX", p.ttl.Milliseconds()); err != nil {
		return nil, err
	}
	return &pipeHold{p, name}, nil
}

func (p *pipes) Try(ctx context.Context, name string) (Hold, error) { return p.Acquire(ctx, name) }

type pipeHold struct {
	pipes *pipes
	name  string
}

func (h *pipeHold) Release(context.Context) error {
	return h.pipes.ask("EVALSHA", compareAndDelete.Hash(), 1, h.name, fanoutToken)
}

func (p *pipes) ask(command string, args ...any) error {
	q := &question{command: command, args: args, need: len(p.all)/2 + 1, done: make(chan struct{}, 1)}
	for _, one := range p.all {
		one.submit(q)
	}
	<-q.done
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (p *pipes) Close() error {
	var errs []error
	for _, one := range p.all {
		if one != nil {
			errs = append(errs, one.conn.Close())
			<-one.ended
		}
	}
	return errors.Join(errs...)
}

// question is one command for all servers.
type question struct {
	command string
	args    []any
	done    chan struct{}

	mu   sync.Mutex
	need int // answers that are still needed
	err  error
}

func (q *question) answered(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.err = err
	}
	if q.need--; q.need == 0 {
		q.done <- struct{}{}
	}
}

// pipe is a shared connection. A caller that finds no other caller writing writes for all, and
// first lets other callers queue.
type pipe struct {
	conn  redis.Conn
	ended chan struct{}

	mu      sync.Mutex
	queue   []*question
	spare   []*question
	writing bool
	sent    chan *question
}

// inFlight is larger than the number of callers.
const inFlight = 4096

func newPipe(c redis.Conn) *pipe {
	p := &pipe{conn: c, sent: make(chan *question, inFlight), ended: make(chan struct{})}
	go p.read()
	return p
}

func (p *pipe) submit(q *question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, q)
	if p.writing {
		return
	}
	p.writing = true
	for len(p.queue) > 0 {
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
		batch := p.queue
		p.queue, p.spare = p.spare[:0], nil
		p.mu.Unlock()
		p.write(batch)
		p.mu.Lock()
		p.spare = batch
	}
	p.writing = false
}

func (p *pipe) write(batch []*question) {
	for _, q := range batch {
		p.sent <- q
		if err := p.conn.Send(q.command, q.args...); err != nil {
			return // the reader reports the error
		}
	}
	_ = p.conn.Flush() // the reader also reports this error
}

func (p *pipe) read() {
	defer close(p.ended)
	for {
		_, err := redis.ReceiveWithTimeout(p.conn, 0)
		if p.conn.Err() != nil {
			p.abandon(err)
			return
		}
		(<-p.sent).answered(err)
	}
}

func (p *pipe) abandon(err error) {
	for {
		select {
		case q := <-p.sent:
			q.answered(fmt.Errorf("adapters: connection ended: %w", err))
		default:
			return
		}
	}
}
