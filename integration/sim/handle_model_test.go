package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
)

// grant is a token in the model. It has no random part and does not appear in messages. Otherwise
// rapid would take each run of a failure for a different failure.
type grant struct {
	number int
	token  string
	robbed bool // an administrator has deleted a key of it, so exclusion is not promised any more
}

// copyOf is the value under the name's key on one master.
type copyOf struct {
	of    *grant
	until time.Time
}

// handle is a Lock in the model. It is held while cause is nil.
type handle struct {
	*redlock.Lock
	of      *grant
	by      int     // the number of its Locker
	root    *handle // the handle that it shares
	until   time.Time
	began   time.Time
	ttl     time.Duration
	maxHold time.Duration
	minHold time.Duration
	spared  [3]bool // masters that never had the key
	cause   error
	result  error // of the first Release, once it was called
	given   bool
}

// model is the documented behaviour of handles on one name, over three masters that execute
// commands in no time.
type model struct {
	keys    [3]copyOf
	up      [3]bool
	undone  [3][]*grant // undos that a master receives when it is up again
	vague   [3]bool     // … and how long its key remains after that
	handles []*handle
	claims  []claimed
}

// claimed is a claim that is not resumed yet.
type claimed struct {
	redlock.Claim
	of *grant
}

func worth(ttl time.Duration) time.Duration {
	return quorum.Until(time.Duration(0), ttl, quorum.DefaultDrift())
}

// end returns when the hold ends without further operations. It is the zero time for a share
// without its own maximum hold.
func (h *handle) end() time.Time {
	most := h.began.Add(h.maxHold)
	if h.maxHold == 0 || h.root == nil && h.until.Before(most) {
		return h.until
	}
	return most
}

// left returns the value of Remaining.
func (h *handle) left(now time.Time) time.Duration {
	if h.root == nil {
		return h.end().Sub(now)
	}
	if h.end().IsZero() {
		return h.root.left(now)
	}
	return min(h.end().Sub(now), h.root.left(now))
}

// current returns what a running master has under the key.
func (m *model) current(i int, now time.Time) *grant {
	if now.Before(m.keys[i].until) {
		return m.keys[i].of
	}
	return nil
}

// votes counts the masters that hold the token, those that do not, and those that are down.
func (m *model) votes(of *grant, now time.Time) (yes, no, down int) {
	for i := range m.up {
		switch {
		case !m.up[i]:
			down++
		case m.current(i, now) == of:
			yes++
		default:
			no++
		}
	}
	return yes, no, down
}

// applyDue ends the handles whose time is over.
func (m *model) applyDue(now time.Time) {
	for _, h := range slices.Backward(m.handles) { // shares before the handles that they share
		if end := h.end(); h.cause == nil && !end.IsZero() && !now.Before(end) && (h.root == nil || end.Before(h.root.end())) {
			cause := redlock.ErrLost
			if h.root != nil || end.Before(h.until) {
				cause = redlock.ErrMaxHold
			}
			m.finish(h, end, cause, true)
		}
	}
}

// finish ends a hold and its shares. If undo is true it also deletes the keys.
func (m *model) finish(h *handle, at time.Time, cause error, undo bool) {
	for _, s := range m.handles {
		if s.root == h && s.cause == nil {
			s.cause = cause
		}
	}
	h.cause = cause
	for i := range m.up {
		if h.root != nil || !undo || m.current(i, at) != h.of {
			continue
		}
		left := h.began.Add(h.minHold).Sub(at)
		until := at
		if left > 0 {
			until = at.Add(max(redlock.MinTTL, (left + time.Millisecond - 1).Truncate(time.Millisecond)))
		}
		switch {
		case m.up[i]:
			m.keys[i].until = earlier(m.keys[i].until, until)
		case left > 0:
			m.vague[i] = true
		default:
			m.undone[i] = append(m.undone[i], h.of)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// take is one attempt. It returns the possible errors if the attempt fails.
func (m *model) take(h *handle, now time.Time) (right []error) {
	yes, _, down := m.votes(nil, now)
	if yes < 2 {
		if down >= 2 {
			return []error{redlock.ErrNoQuorum}
		}
		return []error{redlock.ErrHeld} // or a split vote, which is not repeated here
	}
	px := max(h.ttl, h.minHold)
	h.began, h.until = now, now.Add(worth(px))
	for i := range m.up {
		if h.spared[i] = !m.up[i] || m.current(i, now) != nil; !h.spared[i] {
			m.keys[i] = copyOf{h.of, now.Add(px)}
		}
	}
	m.handles = append(m.handles, h)
	return nil
}

// extend is Extend on a held lock.
func (m *model) extend(h *handle, ttl time.Duration, now time.Time) (right []error) {
	yes, no, down := m.votes(h.of, now)
	for i := range m.up {
		if until := now.Add(ttl); m.up[i] && m.current(i, now) == h.of && m.keys[i].until.Before(until) {
			m.keys[i].until = until
		}
	}
	switch {
	case no >= 2:
		m.finish(h, now, redlock.ErrLost, true)
		if down > 0 { // depending on the order of refusals there is no quorum, or the lock is lost
			right = append(right, redlock.ErrNoQuorum)
		}
		return append(right, redlock.ErrLost)
	case yes < 2:
		return []error{redlock.ErrNoQuorum}
	}
	if until := now.Add(worth(ttl)); h.until.Before(until) {
		h.until = until
	}
	return nil
}

// supported returns the instants until which masters certainly hold the token, the latest first.
func (m *model) supported(of *grant, now time.Time) (untils []time.Time) {
	for i := range m.up {
		if m.up[i] && m.current(i, now) == of {
			untils = append(untils, now.Add(worth(m.keys[i].until.Sub(now))-time.Millisecond))
		}
	}
	slices.SortFunc(untils, func(a, b time.Time) int { return b.Compare(a) })
	return untils
}

// check is Check on a held lock.
func (m *model) check(h *handle, now time.Time) []error {
	_, no, _ := m.votes(h.of, now)
	untils := m.supported(h.of, now)
	switch {
	case no >= 2:
		m.finish(h, now, redlock.ErrLost, true)
		return []error{redlock.ErrLost}
	case len(untils) < 2:
		return []error{redlock.ErrNoQuorum}
	case untils[1].Add(2 * time.Millisecond).Before(h.until): // PTTL truncates up to 1 ms, twice
		h.until = untils[1]
	}
	if !now.Before(h.end()) {
		m.finish(h, h.end(), redlock.ErrLost, true)
		return []error{redlock.ErrLost}
	}
	return nil
}

// release is the first Release of a held lock.
func (m *model) release(h *handle, now time.Time) error {
	if h.root != nil {
		m.finish(h, now, redlock.ErrReleased, false)
		return nil
	}
	yes, no, spared := 0, 0, 0
	for i := range m.up {
		switch {
		case h.spared[i]:
			spared++
		case m.up[i] && m.current(i, now) == h.of:
			yes++
		case m.up[i]:
			no++
		}
	}
	m.finish(h, now, redlock.ErrReleased, true)
	switch {
	case yes >= 2:
		return nil
	case no+spared >= 2:
		return redlock.ErrLost
	case yes+spared >= 2:
		return nil
	}
	return redlock.ErrNoQuorum
}
