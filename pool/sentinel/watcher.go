package sentinel

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/pubsub"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// askPause follows maxSoonAsked announcements. Without it a Sentinel that announces without end
// could have all Sentinels queried without a pause.
const (
	maxSoonAsked = 3
	askPause     = 100 * time.Millisecond
)

// listener is told what the Sentinels answer.
type listener interface {
	recordAnswer(index int, a answer)
	recordFailure(index int, err error)
	wakeAll() // has every Sentinel queried at once
}

// watcher queries one Sentinel for the master repeatedly, and receives its announcements. It uses
// two connections, because a connection in subscribe mode takes no queries.
type watcher struct {
	tells    listener
	of       *Config
	index    int // in the list
	settings *transport.Settings
	dial     func(ctx context.Context) (*transport.Conn, error)
	sub      *pubsub.Subscription
	life     context.Context // ends with close
	stop     context.CancelFunc
	polling  sync.WaitGroup
	wake     signal.Signal // query at once
	soon     int           // used by run only: queries in a row that an announcement advanced
}

// newWatcher makes the watcher of one Sentinel. begin starts it.
func newWatcher(tells listener, p *node.Parts, of *Config, index int) *watcher {
	address := of.Addresses[index]
	w := &watcher{tells: tells, of: of, index: index, settings: of.settings(p.Settings, address), wake: signal.New()}
	w.dial = node.Greeting(w.settings, w.settings)
	w.life, w.stop = context.WithCancel(context.Background())
	w.sub = pubsub.New(w.life, w.settings, w.dial, w, node.NewLog("Sentinel "+address+" of "+p.Name, p.Logger))
	return w
}

// begin starts both connections.
func (w *watcher) begin() {
	// Announcements only make the next query sooner. The majority of answers decides.
	w.sub.Add(switchChannel)
	w.polling.Go(func() { w.run(w.life) })
}

// close ends both and waits for their goroutines.
func (w *watcher) close() {
	w.sub.Close()
	w.stop()
	w.polling.Wait()
}

// Subscribed requests a query: announcements before it were not received.
func (w *watcher) Subscribed(string) { w.wake.Set() }

// Message has all Sentinels queried when one announces another master. The announcement itself
// does not count as an answer, because the instant at which it was true is unknown.
func (w *watcher) Message(_, payload string) {
	// One set of Sentinels may serve many masters. Announcements about others are ignored.
	if name, _, _ := strings.Cut(payload, " "); name == w.of.Master {
		w.tells.wakeAll()
	}
}

// Down does nothing: the queries continue on the other connection.
func (*watcher) Down(error) {}

// run queries until ctx is done, on one connection as long as that works.
func (w *watcher) run(ctx context.Context) {
	b := transport.NewRedial(w.settings)
	b.Run(ctx, func(ctx context.Context) transport.Next {
		answered, err := w.pollConn(ctx)
		// The error of a watcher that is closed says nothing about its Sentinel.
		if ctx.Err() != nil {
			return transport.Never
		}
		// Every end of a connection is recorded, so waitMaster does not wait for a Sentinel that is
		// down.
		w.tells.recordFailure(w.index, transport.WithoutContext(err))
		if answered {
			b.Reset() // the pauses between queries already bound how often a Sentinel that drops connections is dialled
		}
		return transport.AfterPause
	})
}

// pollConn dials the Sentinel and queries it until the connection ends. It reports whether the
// Sentinel ever answered.
func (w *watcher) pollConn(ctx context.Context) (answered bool, err error) {
	s, err := w.dial(ctx)
	if err != nil {
		return false, err
	}
	defer s.Close()
	for {
		// All queries use one connection, one after the other. The subscription has the other one,
		// so a Sentinel costs two sockets.
		n, err := w.query(ctx, s)
		if err != nil {
			return answered, err
		}
		answered = true
		w.tells.recordAnswer(w.index, n)
		if !w.waitNextPoll(ctx) {
			return true, server.ErrClosed
		}
	}
}

// waitNextPoll waits until the next query is due. It returns false if ctx is done.
func (w *watcher) waitNextPoll(ctx context.Context) bool {
	often := w.of.MaxAge / pollsPerMaxAge
	// A run of early queries means that announcements keep coming. One pause follows each such run,
	// and the count begins again.
	if w.soon++; w.soon > maxSoonAsked {
		w.soon = 0
		timer.Wait(w.settings.Clock, min(askPause, often), ctx.Done())
	}
	over, stop := timer.After(w.settings.Clock, often)
	defer stop()
	select {
	case <-over:
		w.soon = 0
	case <-w.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

var errNoAnswer = errors.New("no answer within MaxAge")

// query queries once. It gives up after MaxAge, because the answer would be too old to count.
func (w *watcher) query(ctx context.Context, s *transport.Conn) (n answer, err error) {
	of := w.of
	// The node's clock also counts a suspend, which a network deadline does not.
	late := w.settings.Clock.AfterFunc(of.MaxAge, s.Abort)
	// The age counts from before the query, so a slow reply never looks younger than it is.
	n = answer{sentinel: w.settings.Address, asked: w.settings.Clock.Now(), answered: true}
	replies, err := s.Ask(ctx,
		transport.Call{Name: "SENTINEL", Args: []any{"GET-MASTER-ADDR-BY-NAME", of.Master}},
		// The number of other Sentinels is for the doctor only. It is read in the same round trip.
		transport.Call{Name: "SENTINEL", Args: []any{"MASTER", of.Master}})
	// The error of a connection that was aborted would hide the reason.
	if !late.Stop() && ctx.Err() == nil {
		return n, errNoAnswer
	}
	if len(replies) > 0 {
		var wrong error
		if n.master, wrong = masterIn(replies[0].Value, replies[0].Err); wrong != nil {
			return n, wrong
		}
	}
	if err != nil {
		return n, err
	}
	facts, err := redis.StringMap(replies[1].Value, replies[1].Err)
	if err == nil { // there is no answer if the master is unknown or the right is missing
		n.peers, _ = strconv.Atoi(facts["num-other-sentinels"])
	}
	return n, nil
}

// masterIn parses host and port. It returns an empty address if the Sentinel does not know the
// master.
func masterIn(reply any, err error) (string, error) {
	parts, err := redis.Strings(reply, err)
	switch {
	// This is an answer and not a failure. It replaces the earlier answer of this Sentinel, which
	// then no longer counts.
	case errors.Is(err, redis.ErrNil) || resp.Code(err) == "IDONTKNOW":
		return "", nil
	case err != nil:
		return "", resp.Clean(err)
	case len(parts) != 2:
		return "", named.ErrNoAddress
	}
	return named.Endpoint(parts[0], parts[1])
}
