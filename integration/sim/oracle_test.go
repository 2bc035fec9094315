package sim

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// hold is the time in which a client could rely on a lock: from the return of the acquisition to
// the call that ended it or the end of its validity.
type hold struct {
	client   int
	name     string
	token    string
	fence    int64
	asked    time.Time // before a master executed the first command of the attempt
	from, to time.Time // to is zero while the hold lasts
	done     time.Time // when the acquisition returned, even if the hold was over by then
}

func (h *hold) String() string {
	const form = "05.000000"
	return fmt.Sprintf("client %d held %s as %.12s with %d from %s to %s, asked %s", h.client, h.name, h.token, h.fence, h.from.Format(form), h.to.Format(form), h.asked.Format(form))
}

// register is a resource that checks fences, and records what it has accepted. Its writers read,
// work, and write the value that they read plus one.
type register struct {
	seen  int64
	owner string
	value int
}

// history is what all holders of a scenario saw, by the single clock of the bubble.
type history struct {
	mu        sync.Mutex
	asked     map[string]time.Time // of each token
	holds     []*hold
	registers map[string]*register
	lost      []string // writes that the registers lost, or rejected from a valid holder
}

func newHistory() *history {
	return &history{asked: map[string]time.Time{}, registers: map[string]*register{}}
}

// began records when a token first reached a master. The token has no effect before that.
func (h *history) began(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.asked[token]; !ok {
		h.asked[token] = time.Now()
	}
}

func (h *history) begin(client int, k *redlock.Lock) (list []*hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range k.Names() {
		list = append(list, &hold{client: client, name: name, token: k.Token(), fence: k.Fence(), asked: h.asked[k.Token()], from: time.Now(), done: time.Now()})
	}
	h.holds = append(h.holds, list...)
	return list
}

// end ends the record of holds that have not ended yet.
func (h *history) end(list []*hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range list {
		if x.to.IsZero() {
			x.to = time.Now()
		}
	}
}

// overlaps returns all pairs of holds of one name that overlap and have different tokens.
func (h *history) overlaps() (found []string) {
	for i, a := range h.holds {
		for _, b := range h.holds[:i] {
			if a.name == b.name && a.token != b.token && a.from.Before(b.to) && b.from.Before(a.to) {
				found = append(found, fmt.Sprintf("at once: %v; %v", b, a))
			}
		}
	}
	return found
}

// disorder returns the pairs of holds of one name that have different tokens and fences out of
// order: the same number, or a larger number for a hold that was acquired before the other was
// requested.
func (h *history) disorder() (found []string) {
	for i, a := range h.holds {
		for _, b := range h.holds[:i] {
			if a.name != b.name || a.token == b.token || a.fence == 0 || b.fence == 0 {
				continue
			}
			if a.fence == b.fence || a.done.Before(b.asked) && a.fence > b.fence || b.done.Before(a.asked) && b.fence > a.fence {
				found = append(found, fmt.Sprintf("fences: %v; %v", b, a))
			}
		}
	}
	return found
}

// read has a holder read a register, which then rejects earlier holders.
func (h *history) read(name string, k *redlock.Lock) (value int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reg := h.registers[name]
	if reg == nil {
		reg = &register{}
		h.registers[name] = reg
	}
	if !redlock.AcceptFence(reg.seen, reg.owner, k.Fence(), k.Token()) {
		return 0, false
	}
	reg.seen, reg.owner = k.Fence(), k.Token()
	return reg.value, true
}

// write stores value if the register accepts the holder.
func (h *history) write(name string, k *redlock.Lock, read, value int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	reg := h.registers[name]
	if !redlock.AcceptFence(reg.seen, reg.owner, k.Fence(), k.Token()) {
		return false
	}
	if reg.value != read {
		h.lost = append(h.lost, fmt.Sprintf("lost: %s had become %d since %.12s with %d read %d", name, reg.value, k.Token(), k.Fence(), read))
	}
	reg.seen, reg.owner, reg.value = k.Fence(), k.Token(), value
	return true
}

func (h *history) refused(name string, k *redlock.Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reg := h.registers[name]
	h.lost = append(h.lost, fmt.Sprintf("refused: %s saw %d, and %.12s with %d holds it", name, reg.seen, k.Token(), k.Fence()))
}

func TestTheOraclesSeeWhatTheyAreFor(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	of := func(token string, fence int64, from, to int) *hold {
		return &hold{name: "a", token: token, fence: fence, asked: at(from - 1), from: at(from), done: at(from), to: at(to)}
	}
	good := &history{holds: []*hold{of("x", 5, 10, 20), of("y", 6, 21, 30), of("y", 6, 31, 40)}}
	require.Empty(t, good.overlaps())
	require.Empty(t, good.disorder())
	require.True(t, linear(good.holds))
	for _, bad := range []*hold{of("z", 7, 39, 50), of("z", 6, 50, 60), of("z", 4, 50, 60)} {
		h := &history{holds: append(append([]*hold(nil), good.holds...), bad)}
		require.NotEmpty(t, append(h.overlaps(), h.disorder()...), "%v", bad)
		require.False(t, linear(h.holds), "%v", bad)
	}
}
