package clock

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is a host whose clocks the test moves. Every reading takes some nanoseconds, and events
// between two readings can be scripted.
type machine struct {
	elapsed, slept, set int64 // awake, suspended, and by how much the wall clock was set
	asked               int
	between             func() // runs once, between wall and monotonic reading
	asking              func() // runs once, before the kernel's answer
}

func once(f *func()) {
	if g := *f; g != nil {
		*f = nil
		g()
	}
}

func (m *machine) read() (mono, wall int64) {
	m.elapsed += 20
	wall = 1_700_000_000_000_000_000 + m.elapsed + m.slept + m.set
	once(&m.between)
	m.elapsed += 20
	return m.elapsed, wall
}

func (m *machine) boot() int64 {
	m.asked++
	m.elapsed += 200
	once(&m.asking)
	return m.true()
}

// true returns the right elapsed time.
func (m *machine) true() int64 { return m.elapsed + m.slept }

func (m *machine) requireTrue(t *testing.T, c Clock) {
	t.Helper()
	before := m.true()
	now := int64(c.Now())
	require.GreaterOrEqual(t, now, before)
	require.LessOrEqual(t, now, m.true()+bootSlack)
}

const hour = int64(time.Hour)

func TestASuspendIsSeenByTheVeryNextNow(t *testing.T) {
	m := &machine{elapsed: 3 * hour, slept: hour}
	c := newBootClock(m.read, m.boot)
	m.requireTrue(t, c)
	for _, d := range []int64{int64(time.Millisecond), int64(time.Second), hour, 1000 * hour} {
		m.slept += d
		m.requireTrue(t, c)
	}
}

func TestTheKernelIsNotQueriedWithoutASuspend(t *testing.T) {
	m := &machine{}
	c := newBootClock(m.read, m.boot)
	c.Now()
	require.Equal(t, 1, m.asked)
	for range 1000 {
		m.elapsed += hour
		m.requireTrue(t, c)
	}
	require.Equal(t, 1, m.asked)
}

func TestSettingTheWallClockDoesNotMoveTheBootClock(t *testing.T) {
	m := &machine{}
	c := newBootClock(m.read, m.boot)
	for _, set := range []int64{hour, -hour, -1000 * hour, 1} {
		m.set += set
		m.requireTrue(t, c)
	}
}

func TestASuspendIsSeenThoughTheWallClockWasSetBackSinceThenByAlmostAsMuch(t *testing.T) {
	m := &machine{}
	c := newBootClock(m.read, m.boot)
	c.Now()
	m.slept += hour
	m.set -= hour - 2*bootSlack
	m.requireTrue(t, c)
}

func TestASuspendInTheMidstOfAReadingIsSeenByTheNextOne(t *testing.T) {
	for name, place := range map[string]func(m *machine) *func(){
		"between the readings": func(m *machine) *func() { return &m.between },
		"while asking":         func(m *machine) *func() { return &m.asking },
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			c := newBootClock(m.read, m.boot)
			c.Now()
			m.set += hour // so that the clock queries the kernel
			*place(m) = func() { m.slept += hour }
			c.Now()
			m.requireTrue(t, c)
		})
	}
}

func TestAnUndisturbedReadingThatNeverComesLeavesTheKernelsAnswer(t *testing.T) {
	m := &machine{}
	var disturb func()
	disturb = func() { m.elapsed += 2 * bootSlack; m.asking = disturb }
	m.asking = disturb
	c := newBootClock(m.read, m.boot)
	m.requireTrue(t, c)
	m.requireTrue(t, c)
	require.Equal(t, 2*bootTries, m.asked, "nothing uncertain was kept")
}

func TestTheBootClockIsRightAndNeverGoesBackWhateverHappens(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &machine{}
		c := newBootClock(m.read, m.boot)
		last := c.Now()
		trouble := func() {
			d := r.Int64N(1 << r.IntN(50))
			switch r.IntN(4) {
			case 0:
				m.elapsed += d
			case 1:
				m.slept += d + int64(time.Millisecond) // no suspend is shorter
			case 2:
				m.set += d - r.Int64N(1<<50)
			}
		}
		for range 100 {
			trouble()
			if r.IntN(3) == 0 {
				m.between = trouble
			}
			if r.IntN(3) == 0 {
				m.asking = trouble
			}
			before := m.true()
			now := c.Now()
			require.GreaterOrEqual(t, int64(now), before, "seed %d", seed)
			require.LessOrEqual(t, int64(now), m.true()+bootSlack, "seed %d", seed)
			require.False(t, now.Before(last), "seed %d", seed)
			last = now
		}
	}
}

func TestConcurrentReadersKeepOneSighting(t *testing.T) {
	m := &machine{}
	c := newBootClock(m.read, m.boot)
	m.asking = func() {
		m.slept += hour // the other reading queries the kernel after it, and returns before
		m.requireTrue(t, c)
	}
	before := m.true()
	require.GreaterOrEqual(t, int64(c.Now()), before)
	m.requireTrue(t, c)
}
