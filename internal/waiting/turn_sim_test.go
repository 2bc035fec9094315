//go:build !race

package waiting

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// fleet is a simulation of processes that contend for one name: discrete events, one server that executes
// in no time, and no lost attempt. Each process acquires the name, works, and releases it, again and again.
type fleet struct {
	processes []*rival
	work      func() time.Duration
	lost      float64 // share of the announcements that are lost
	leaving   float64 // share of the waiters that give up at each announcement; a new process takes the place of each
	uncounted bool    // the right to count subscribers is missing
	once      bool    // each process acquires the name once

	rand     *rand.Rand
	now      time.Duration
	events   events
	holder   *rival
	last     *rival // the holder before
	attempts int
	taken    time.Duration // between the first release and the next hold
	released time.Duration // the first release
	holds    []int         // in each second
	tried    int           // attempts in that time
	messages int           // that were received
	jitter   time.Duration // how much longer each message takes, on average

	cost       time.Duration    // of a message to or from one of three nodes, on one of two processors that all share
	processors [2]time.Duration // until when each is busy
}

// rival is one process.
type rival struct {
	turn      turn
	roundTrip time.Duration
	begins    time.Duration
	joined    time.Duration
	waiting   bool
	plan      int           // the number of the attempt that it plans; others are void
	heard     bool          // its next attempt follows a release
	restUntil time.Duration // until then it hears nothing
	waits     []time.Duration
	age       time.Duration // the last of them

	// It is of a version without an order. It tries at each release, and its own say nothing. After a row of holds it
	// leaves others a pause, which doubles while nobody uses it.
	other bool
	row   int           // holds in a row
	since time.Duration // the first of them
	empty int           // pauses in a row that nobody used
}

type event struct {
	at  time.Duration
	run func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) } //nolint:forcetypeassert // only events are pushed

// Pop removes the last one, which heap.Pop has made the earliest.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// newFleet returns n processes that work for 5 ms, 0.3 ms from the server.
func newFleet(n int) *fleet {
	f := &fleet{rand: rand.New(rand.NewPCG(1, 1)), work: func() time.Duration { return 5 * time.Millisecond }}
	for range n {
		f.processes = append(f.processes, &rival{roundTrip: 300 * time.Microsecond})
	}
	return f
}

func (f *fleet) draws() [2]float64 { return [2]float64{f.rand.Float64(), f.rand.Float64()} }

func (f *fleet) after(d time.Duration, run func()) { heap.Push(&f.events, event{f.now + d, run}) }

// handle runs something after a time, when a processor has handled so many messages to or from each node.
func (f *fleet) handle(in time.Duration, messages int, run func()) {
	if f.cost == 0 {
		f.after(in, run)
		return
	}
	f.after(in, func() {
		p := &f.processors[0]
		if f.processors[1] < *p {
			p = &f.processors[1]
		}
		*p = max(f.now, *p) + time.Duration(3*messages)*f.cost
		f.after(*p-f.now, run)
	})
}

// run simulates until end. The processes begin within the first millisecond.
func (f *fleet) run(end time.Duration) {
	for _, p := range f.processes {
		f.after(p.begins+time.Duration(f.rand.Float64()*float64(time.Millisecond)), func() {
			p.joined, p.waiting = f.now, true
			f.try(p, 0)
		})
	}
	f.resume(end)
}

// resume simulates from where run, or resume, ended.
func (f *fleet) resume(end time.Duration) {
	for f.events.Len() > 0 && f.events[0].at <= end {
		e := heap.Pop(&f.events).(event) //nolint:forcetypeassert // see Push
		f.now = e.at
		e.run()
	}
}

// try plans the next attempt of a process, in place of another one.
func (f *fleet) try(p *rival, in time.Duration) {
	p.plan++
	plan := p.plan
	f.after(in, func() {
		if p.waiting && p.plan == plan {
			f.handle(f.trip(p), 2, func() { f.execute(p, plan) })
		}
	})
}

// poll plans a poll of a process, in place of its next attempt.
func (f *fleet) poll(p *rival, in time.Duration) {
	p.plan++
	plan := p.plan
	f.handle(in+f.trip(p), 2, func() {
		switch {
		case !p.waiting || p.plan != plan:
		case f.holder == nil:
			f.try(p, f.trip(p))
		default:
			f.poll(p, f.pollPause())
		}
	})
}

func (f *fleet) execute(p *rival, plan int) {
	f.attempts++
	if !p.waiting {
		return
	}
	if f.holder != nil {
		heard := p.heard
		if heard {
			p.turn.refused()
		}
		p.heard = false
		f.after(f.trip(p), func() {
			switch {
			case !p.waiting || p.plan != plan: // another release was announced meanwhile
			case heard:
				f.try(p, MinForeignPause+time.Duration(f.rand.Float64()*float64(MaxForeignPause-MinForeignPause)))
			default:
				f.poll(p, f.pollPause())
			}
		})
		return
	}
	f.holder, p.waiting = p, false
	if f.last != p {
		f.last, p.row, p.since, p.empty = p, 0, f.now, 0
	}
	for second := int(f.now / time.Second); len(f.holds) <= second; {
		f.holds = append(f.holds, 0)
	}
	f.holds[len(f.holds)-1]++
	p.turn.granted()
	p.turn.ownTurn()
	if f.taken == 0 && f.released > 0 {
		f.taken, f.tried = f.now-f.released, f.attempts
	}
	f.after(f.trip(p), func() {
		p.age = f.now - p.joined
		p.waits = append(p.waits, p.age)
		f.after(f.work(), func() { f.release(p) })
	})
}

func (f *fleet) release(p *rival) {
	r := release{age: p.age}
	f.after(f.trip(p), func() {
		f.holder = nil
		if f.released == 0 {
			f.released, f.attempts = f.now, 0
		}
		for _, o := range f.processes {
			if o.waiting && f.now >= o.restUntil {
				r.waiters++
			}
		}
		contended := r.waiters > 0
		if f.uncounted {
			r.waiters = 0
		}
		if p.other {
			r = release{}
		}
		for _, o := range f.processes {
			if o.waiting && f.now >= o.restUntil && f.rand.Float64() >= f.lost {
				f.messages++
				f.handle(f.trip(o), 1, func() { f.hear(o, r) })
			}
		}
		if !f.once {
			f.handle(f.trip(p), 4, func() { f.rejoin(p, r, contended) })
		}
	})
}

func (f *fleet) rejoin(p *rival, r release, contended bool) {
	p.joined, p.waiting = f.now, true
	switch {
	case !contended:
		f.try(p, 0)
		return
	case p.other:
		f.try(p, f.afterRow(p))
		return
	}
	p.turn.hear(clock.Instant(f.now), r)
	if f.rests(p) {
		return
	}
	f.try(p, p.turn.afterOwn(f.draws()))
}

// afterRow returns how long a process of the version without an order waits after its own release.
func (f *fleet) afterRow(p *rival) time.Duration {
	if p.row++; p.row < MaxStreak && f.now-p.since < MaxStreakTime {
		return 0
	}
	pause := (2*p.roundTrip + 10*time.Millisecond) << p.empty
	p.row, p.since, p.empty = 0, f.now, min(p.empty+1, 5)
	return pause
}

// rests has a process rest that is far from its turn, and reports whether it does. Afterwards it looks whether the
// name is free: nobody may have listened.
func (f *fleet) rests(p *rival) bool {
	d := p.turn.rest(f.now-p.joined, f.draws())
	if d == 0 {
		return false
	}
	p.turn.missed(d)
	p.restUntil = f.now + d
	f.handle(d, 4, func() {}) // it ends the subscription, and subscribes again
	f.poll(p, d+f.trip(p)+f.trip(p))
	return true
}

func (f *fleet) pollPause() time.Duration {
	return time.Second*3/4 + time.Duration(f.rand.Float64()*float64(time.Second/4))
}

func (f *fleet) hear(p *rival, r release) {
	if f.now < p.restUntil {
		return // it was on its way
	}
	if p.waiting && f.rand.Float64() < f.leaving {
		p.joined = f.now
	}
	p.turn.hear(clock.Instant(f.now), r)
	p.turn.otherTurns(1)
	p.heard = true
	if p.waiting && p.other {
		f.try(p, 0)
		return
	}
	if !p.waiting || f.rests(p) {
		return
	}
	if d, tries := p.turn.delay(f.now-p.joined, f.draws()); tries {
		f.try(p, d)
	} else {
		f.poll(p, f.pollPause())
	}
}

// trip returns how long a message takes from a process to the server, or back.
func (f *fleet) trip(p *rival) time.Duration {
	return p.roundTrip/2 + time.Duration(f.rand.ExpFloat64()*float64(f.jitter))
}

// summary is what the processes had.
type summary struct {
	holds    int
	attempts float64 // for each hold, as messages
	jain     float64 // of the holds of the processes: 1 if all had as many
	longest  time.Duration
	messages float64
}

func (f *fleet) summary() (s summary) {
	squares := 0.0
	for _, p := range f.processes {
		s.holds += len(p.waits)
		squares += float64(len(p.waits) * len(p.waits))
		s.longest = max(s.longest, slices.Max(append(p.waits, 0)))
		if p.waiting {
			s.longest = max(s.longest, f.now-p.joined)
		}
	}
	s.messages = float64(f.messages) / float64(s.holds)
	s.attempts = float64(f.attempts) / float64(s.holds)
	s.jain = float64(s.holds) * float64(s.holds) / (float64(len(f.processes)) * squares)
	return s
}

// However many processes wait, few of them try at each release, and none waits for much longer than the others.
func TestManyProcessesOnOneNameAreNoHerd(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		setUp func(*fleet)
		least summary
	}{
		{"two", 2, nil, summary{1700, 2.1, 0.99, 50 * time.Millisecond, 1}},
		{"three", 3, nil, summary{1700, 3.1, 0.99, 250 * time.Millisecond, 2}},
		{"four", 4, nil, summary{1700, 4.1, 0.99, 250 * time.Millisecond, 3}},
		{"six", 6, nil, summary{1700, 6.1, 0.99, 400 * time.Millisecond, 5}},
		{"ten", 10, nil, summary{1600, 9, 0.99, 250 * time.Millisecond, 9}},
		{"fifty", 50, nil, summary{1550, 12, 0.95, time.Second, 15}},
		{"150", 150, nil, summary{1450, 12, 0.95, 2500 * time.Millisecond, 18}},
		{"a busy machine", 150, func(f *fleet) { f.jitter = time.Millisecond }, summary{1100, 14, 0.95, 3 * time.Second, 21}},
		{"some leave", 150, func(f *fleet) { f.leaving = 0.02 }, summary{1450, 12, 0.9, 2500 * time.Millisecond, 30}},
		{"20 that nobody counts", 20, func(f *fleet) { f.uncounted = true }, summary{1600, 12, 0.98, time.Second, 19}},
		{"100 that nobody counts", 100, func(f *fleet) { f.uncounted = true }, summary{1550, 15, 0.97, 3 * time.Second, 99}},
		{"half of the messages are lost", 50, func(f *fleet) { f.lost = 0.5 }, summary{1550, 12, 0.95, 1500 * time.Millisecond, 15}},
		{"holds that differ a thousandfold", 50, func(f *fleet) {
			f.work = func() time.Duration {
				return time.Duration(5e6 * f.rand.ExpFloat64() * f.rand.ExpFloat64() * f.rand.ExpFloat64())
			}
		}, summary{1000, 12, 0.9, 2500 * time.Millisecond, 15}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(c.n)
			if c.setUp != nil {
				c.setUp(f)
			}
			f.run(10 * time.Second)
			s := f.summary()
			t.Logf("%+v", s)
			require.GreaterOrEqual(t, s.holds, c.least.holds)
			require.LessOrEqual(t, s.attempts, c.least.attempts)
			require.GreaterOrEqual(t, s.jain, c.least.jain)
			require.LessOrEqual(t, s.longest, c.least.longest)
			require.LessOrEqual(t, s.messages, c.least.messages)
		})
	}
}

// Where processes and servers share two processors, each message delays all others. If all listen to each release, the lock stands still.
func TestManyProcessesOnABusyMachineAreNoHerd(t *testing.T) {
	for _, c := range []struct {
		n     int
		least summary
	}{
		{2, summary{1550, 2.1, 0.99, 50 * time.Millisecond, 1}},
		{10, summary{1450, 7, 0.99, 500 * time.Millisecond, 9}},
		{50, summary{1400, 11, 0.95, 2 * time.Second, 15}},
		{150, summary{1400, 13, 0.95, 3 * time.Second, 20}},
		{300, summary{950, 10, 0.75, 10 * time.Second, 50}},
	} {
		f := newFleet(c.n)
		f.cost = 60 * time.Microsecond
		f.run(10 * time.Second)
		s := f.summary()
		t.Logf("%d processes: %+v", c.n, s)
		require.GreaterOrEqual(t, s.holds, c.least.holds)
		require.LessOrEqual(t, s.attempts, c.least.attempts)
		require.GreaterOrEqual(t, s.jain, c.least.jain)
		require.LessOrEqual(t, s.longest, c.least.longest)
		require.LessOrEqual(t, s.messages, c.least.messages)
	}
}

// A hold may take longer than the slots of all that listen. So few try after it all the same, and the name is free for a short time.
func TestLongHoldsOfManyProcessesAreNoHerd(t *testing.T) {
	for _, hold := range []time.Duration{250 * time.Millisecond, time.Second, 1100 * time.Millisecond, 5 * time.Second} {
		for _, n := range []int{50, 150} {
			f := newFleet(n)
			f.work = func() time.Duration { return hold }
			f.run(time.Duration(6*n) * hold)
			s := f.summary()
			t.Logf("%v, %d processes: %+v", hold, n, s)
			require.LessOrEqual(t, s.attempts, 36.0)
			require.GreaterOrEqual(t, s.holds, 6*n*19/20)
			require.GreaterOrEqual(t, s.jain, 0.93)
			require.LessOrEqual(t, s.longest, time.Duration(3*n)*hold)
		}
	}
}

// A long hold now and then must not make those rest again and again whose turn is near.
func TestALongHoldNowAndThenStarvesNobody(t *testing.T) {
	for _, n := range []int{40, 64, 100, 150} {
		f := newFleet(n)
		holds := 0
		f.work = func() time.Duration {
			if holds++; holds%300 == 0 {
				return time.Second
			}
			return time.Millisecond
		}
		f.run(3 * time.Minute)
		s := f.summary()
		t.Logf("%d processes: %+v", n, s)
		require.LessOrEqual(t, s.longest, 4*time.Second)
		require.LessOrEqual(t, s.attempts, 8.0)
	}
}

// Processes that are far away have their turns too: the others leave them longer slots. Those that are near must not
// take turns among themselves, however little nearer they are.
func TestProcessesThatAreFarAwayHaveTheirTurns(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		near, nears, far, fars int // round trips in tenths of a millisecond, and processes
		work                   time.Duration
		least                  float64 // of a far one, as part of its share
		longest                time.Duration
	}{
		{10, 1, 400, 1, 5 * ms, 0.6, time.Second},
		{3, 2, 8, 2, 30 * ms, 0.8, time.Second},
		{3, 3, 8, 1, 30 * ms, 0.8, time.Second},
		{3, 2, 53, 2, 30 * ms, 0.7, 2 * time.Second},
		{3, 2, 403, 2, 30 * ms, 0.6, 3 * time.Second},
		{3, 3, 203, 1, 5 * ms, 0.5, time.Second},
		{3, 9, 8, 1, 30 * ms, 0.8, 2 * time.Second},
	} {
		f := newFleet(c.nears + c.fars)
		f.work = func() time.Duration { return c.work }
		for i, p := range f.processes {
			if p.roundTrip = time.Duration(c.near) * ms / 10; i >= c.nears {
				p.roundTrip = time.Duration(c.far) * ms / 10
			}
		}
		f.run(15 * time.Second)
		s, least := f.summary(), math.MaxInt
		for _, p := range f.processes[c.nears:] {
			least = min(least, len(p.waits))
		}
		part := float64(least*len(f.processes)) / float64(s.holds)
		t.Logf("%+v: far at least %d, %.2f of its share; %+v", c, least, part, s)
		require.GreaterOrEqual(t, part, c.least)
		require.LessOrEqual(t, s.longest, c.longest)
	}
}

// All have waited equally long, and only the release says how many they are.
func TestALongHoldEndsWithoutAHerd(t *testing.T) {
	f := newFleet(1000)
	holds := 0
	f.once, f.work = true, func() time.Duration {
		if holds++; holds == 1 {
			return time.Minute
		}
		return 5 * time.Millisecond
	}
	f.run(time.Minute + 10*time.Second)
	t.Logf("the next hold after %v and %d attempts, then %.1f attempts a hold", f.taken, f.tried, f.summary().attempts)
	require.LessOrEqual(t, f.taken, 20*time.Millisecond)
	require.LessOrEqual(t, f.tried, 50)
	require.Equal(t, 1000, f.summary().holds)
	require.LessOrEqual(t, f.summary().attempts, 50.0)
}

// Those that come late into a long hold must not take its length for that of a wait, and rest while the name is free.
func TestWhoComesLateIntoALongHoldHasItsTurnSoon(t *testing.T) {
	for _, n := range []int{10, 20, 150} {
		f := newFleet(n)
		f.processes[1].begins = time.Millisecond // the holder after it, which has waited for long
		for _, p := range f.processes[2:] {
			p.begins = 50 * time.Second
		}
		first := true
		f.work = func() time.Duration {
			if first {
				first = false
				return time.Minute
			}
			return 5 * time.Millisecond
		}
		f.run(80 * time.Second)
		t.Log(n, f.taken, f.holds[60:80])
		require.LessOrEqual(t, f.taken, 20*time.Millisecond)
		for _, holds := range f.holds[61:79] {
			require.GreaterOrEqual(t, holds, 80)
		}
	}
}

// All have waited as long as one hold took, which says nothing of the waits that follow: it is forgotten within seconds.
func TestALongHoldIsSoonForgotten(t *testing.T) {
	for _, c := range []struct {
		n       int
		least   float64 // Jain's index, from two seconds after it on, in each second
		longest time.Duration
	}{{10, 0.98, 250 * time.Millisecond}, {50, 0.8, 1500 * time.Millisecond}, {150, 0.7, 4 * time.Second}} {
		for _, long := range []time.Duration{5 * time.Second, 20 * time.Second} {
			f := newFleet(c.n)
			first := true
			f.work = func() time.Duration {
				if first {
					first = false
					return long
				}
				return 5 * time.Millisecond
			}
			f.run(long + 2*time.Second)
			for range 6 {
				for _, p := range f.processes {
					p.waits = nil
				}
				f.resume(f.now + time.Second)
				s := f.summary()
				t.Logf("%d processes, %v: Jain %.3f, longest wait %v", c.n, long, s.jain, s.longest)
				require.GreaterOrEqual(t, s.jain, c.least)
				require.LessOrEqual(t, s.longest, c.longest)
			}
		}
	}
}

// Clients that try at each release, as a version without the order did, are ahead of those that wait for their turn
// (docs/dev/waiting-limits.md). The name goes on from hand to hand, and of two processes both have their turns.
func TestAVersionWithoutTheOrderIsAhead(t *testing.T) {
	for _, n := range []int{2, 10, 50} {
		f := newFleet(n)
		for i, p := range f.processes {
			p.other = i%2 == 1
		}
		f.run(20 * time.Second)
		s, waiting := f.summary(), 0
		for _, p := range f.processes {
			if !p.other {
				waiting += len(p.waits)
			}
		}
		t.Logf("%d processes: those that wait for their turn had %d of %+v", n, waiting, s)
		require.GreaterOrEqual(t, s.holds, 3300)
		require.LessOrEqual(t, s.attempts, float64(n))
		if n == 2 {
			require.GreaterOrEqual(t, waiting, s.holds/10)
			require.LessOrEqual(t, s.longest, 100*time.Millisecond)
		}
	}
}

// A client that may publish can disturb the order. It can't stop the others.
func TestForgedAgesStopNobody(t *testing.T) {
	const fleets = 8
	for _, inARow := range []int{1, 20} {
		for _, waiters := range []int{1, 12, maxWaiters} {
			jain, longest := 0.0, time.Duration(0)
			for seed := range uint64(fleets) {
				f := newFleet(20)
				f.rand = rand.New(rand.NewPCG(1, seed))
				var forge func()
				forge = func() {
					for _, p := range f.processes {
						for range inARow {
							if p.waiting && f.now >= p.restUntil {
								f.hear(p, release{age: maxAge, waiters: waiters})
							}
						}
					}
					f.after(time.Duration(100+f.rand.IntN(500))*time.Millisecond, forge)
				}
				f.after(time.Second, forge)
				f.run(20 * time.Second)
				for _, holds := range f.holds[:19] {
					require.GreaterOrEqual(t, holds, 90)
				}
				s := f.summary()
				jain, longest = jain+s.jain/fleets, max(longest, s.longest)
			}
			t.Logf("%d in a row, %d waiters: jain %.3f, longest %v", inARow, waiters, jain, longest)
			require.GreaterOrEqual(t, jain, 0.985)
			require.LessOrEqual(t, longest, 3*time.Second)
		}
	}
}
