package redlock

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// lifeSeen is an observer that lists what it was told of a lock, and checks what has to be true then.
type lifeSeen struct {
	fl     *testbed
	mu     sync.Mutex // guards the fields below
	list   []string
	grants map[*vote.Round]int
}

func (o *lifeSeen) add(format string, args ...any) {
	o.list = append(o.list, fmt.Sprintf(format, args...))
}

// held says whether a majority of the masters has the token.
func (o *lifeSeen) held(token string) string {
	n := 0
	for _, m := range o.fl.masters {
		if v, _ := m.Get("a"); v == token {
			n++
		}
	}
	if n > 1 {
		return "held"
	}
	return "free"
}

func (o *lifeSeen) Began(r *vote.Round) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add("%v, %s", r.Request.Op, o.held(r.Request.Token()))
}

func (o *lifeSeen) Answered(r *vote.Round, _ int, rep command.Reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if rep.Outcome == command.Granted && !rep.NotSent {
		o.grants[r]++
	}
}

func (o *lifeSeen) Decided(r *vote.Round, until clock.Instant, fence int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add("valid for %v by %v, fence %t, majority %t", until.Sub(r.Start).Round(time.Second), r.Request.Op, fence > 0, o.grants[r] > 1)
}

func (o *lifeSeen) Ended(token string, kept bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add("ended, %s, kept %t", o.held(token), kept)
}

func (o *lifeSeen) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return list
}

// The traces of the simulation rest on it (proof/check/README.md): a round begins before a master executes it, a
// decision follows the answers of a majority, and an end comes before its undo.
func TestAnObserverIsToldOfTheLifeOfALockInOrder(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.guarded(WithFencing(), WithRepair())
		o := &lifeSeen{fl: fl, grants: map[*vote.Round]int{}}
		require.NoError(t, take(t, l, "warm-up", time.Second).Release(bg)) // the first quarantine
		fl.answered()
		door.Observe(l, o)
		for i, m := range fl.masters { // no two will agree
			m.Set(command.FencePrefix+"a", strconv.FormatInt(l.set.wall()+1e9+int64(i), 10), 0)
		}
		k := take(t, l, "a", 4*time.Second)
		require.Equal(t, []string{"acquire, free", "confirm, held", "valid for 4s by acquire, fence true, majority true"}, o.take())

		fl.masters[2].Del("a")
		require.NoError(t, k.Extend(bg, 6*time.Second))
		fl.answered()
		require.Equal(t, []string{"extend, held", "valid for 6s by extend, fence false, majority true", "repair, held"}, o.take())

		require.NoError(t, k.Check(bg))
		fl.answered()
		for _, m := range fl.masters {
			m.Set("a", k.Token(), 3*time.Second)
		}
		require.NoError(t, k.Check(bg))
		require.Equal(t, []string{"inspect, held", "inspect, held", "valid for 3s by inspect, fence false, majority true"}, o.take())

		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = l.Resume(bg, claim)
		require.NoError(t, err)
		require.Equal(t, []string{"ended, held, kept true", "inspect, held", "valid for 3s by inspect, fence false, majority true"}, o.take())

		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Equal(t, []string{"ended, held, kept false"}, o.take())

		for _, m := range fl.masters {
			m.Set("a", "another", time.Second)
		}
		_, err = l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, []string{"acquire, free", "ended, free, kept false"}, o.take())
	})
}
