package redlock

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// history records which Locker held which name and when, by the one clock of a bubble. A span
// begins when the acquisition returns. It ends at the call of Release or at the end of the validity
// by the holder's own clock, whichever comes first.
type history struct {
	mu    sync.Mutex
	spans []*span
	open  sync.WaitGroup // holders that have not ended their span yet
}

type span struct {
	name, token string
	from, to    time.Time
}

func (h *history) begin(name string, k *Lock) *span {
	s := &span{name: name, token: k.Token(), from: time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spans = append(h.spans, s)
	return s
}

func (h *history) end(s *span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.to = time.Now()
}

func (h *history) join() { h.open.Wait() }

// overlap returns an error if two spans of one name have an instant in common.
func (h *history) overlap() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range h.spans {
		for _, b := range h.spans[:i] {
			if a.name == b.name && a.from.Before(b.to) && b.from.Before(a.to) {
				return fmt.Errorf("%s was held by %s for [%v] and by %s for [%v]", a.name, a.token, a, b.token, b)
			}
		}
	}
	return nil
}

func (s *span) String() string {
	return s.from.Format("05.000000") + ", " + s.to.Format("05.000000")
}

func TestTheOracleSeesAnOverlap(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	h := history{spans: []*span{{"a", "x", at(0), at(10)}, {"a", "y", at(10), at(20)}, {"b", "z", at(5), at(15)}}}
	require.NoError(t, h.overlap())
	h.spans = append(h.spans, &span{"a", "w", at(19), at(30)})
	require.Error(t, h.overlap())
}
