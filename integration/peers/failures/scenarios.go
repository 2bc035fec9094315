package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

const (
	name = "x"
	long = 10 * time.Second // the longest TTL under the guard here, and longer than what comes after it is taken
)

var scenarios = []scenario{
	{
		name: "a release of one attempt arrives late, in the middle of the next", hazard: "H3", nodes: 3, ttl: 8 * time.Second, quorum: true,
		right: "attempts have tokens of their own, so that it deletes nothing", play: lateRelease,
	},
	{
		name: "an extension when the lock has expired and another has held it", hazard: "H11, H12", nodes: 3, ttl: 400 * time.Millisecond,
		right: "is refused", play: extendAfterLoss,
	},
	{
		name: "an extension by less than a millisecond", hazard: "H22", nodes: 3, ttl: long,
		right: "is refused, or lengthens: it deletes nothing", play: extendByNothing,
	},
	{
		name: "one of three masters is frozen", hazard: "H56", nodes: 3, ttl: 8 * time.Second, quorum: true,
		right: "costs nothing", play: frozenMinority,
	},
	{
		name: "two of four masters are held by another", hazard: "H9", nodes: 4, ttl: long, quorum: true,
		right: "is a refusal, at once", play: tie,
	},
	{
		name: "the answers come when the lock has expired", hazard: "H6", nodes: 3, ttl: 300 * time.Millisecond,
		right: "is no lock", play: expiredOnArrival,
	},
	{
		name: "the masters' clocks are ten seconds ahead", hazard: "H8", nodes: 3, ttl: 5 * time.Second,
		right: "makes no difference", play: clockAhead,
	},
	{
		name: "the caller gives up in the middle of an attempt", hazard: "H2, H4", nodes: 3, ttl: long, quorum: true,
		right: "leaves no key", play: callerGivesUp,
	},
}

// lateRelease has A lose an attempt while somebody holds two masters, holds back A's release on the second, and lets A win the next
// attempt with the second and third. When the late release arrives nobody else may get the lock.
func lateRelease(ctx context.Context, s *scene) (verdict, error) {
	a, b, err := s.two(ctx)
	if err != nil {
		return verdict{}, err
	}
	first, second, third := s.masters[0], s.masters[1], s.masters[2]
	for _, m := range s.masters[:2] {
		m.Set(name, "somebody", long)
	}
	held, late := make(chan struct{}), make(chan struct{})
	second.Hook(holdFirst(name, held, late))
	won := make(chan adapters.Hold, 1)
	go func() {
		if hold, err := a.Acquire(ctx, name); err == nil {
			won <- hold
		}
	}()
	select {
	case <-held:
	case <-time.After(5 * time.Second):
		close(late)
		return well("sends no release where it was refused"), nil
	}
	second.Del(name) // free now; the first stays taken for the moment
	var hold adapters.Hold
	select {
	case hold = <-won:
	case <-time.After(3 * time.Second):
	}
	close(late)
	second.Hook(nil)
	if hold == nil {
		return well("waits for its release before it takes that master's vote again"), nil
	}
	time.Sleep(300 * time.Millisecond) // the late release is executed
	_, stands := second.Get(name)
	first.Del(name)
	other, err := attempt(ctx, b, 2*time.Second)
	_, own := third.Get(name)
	switch {
	case err == nil && own:
		giveBack(ctx, other, hold)
		return ill("**two hold it**"), nil
	case !stands:
		return ill("its own late release deleted its grant"), nil
	}
	giveBack(ctx, hold)
	return well("the late release deleted nothing"), nil
}

// giveBack releases what was the scenario's subject, and may be broken.
func giveBack(ctx context.Context, holds ...adapters.Hold) {
	for _, h := range holds {
		_ = h.Release(ctx)
	}
}

// holdFirst keeps back the first script that is called for a key, tells of it, and lets it go on when late is closed.
func holdFirst(key string, held, late chan struct{}) func(int64, string, []string) (string, bool) {
	seen := make(chan struct{}, 1)
	seen <- struct{}{}
	return func(_ int64, cmd string, args []string) (string, bool) {
		if !strings.HasPrefix(cmd, "EVAL") || len(args) < 3 || args[2] != key {
			return "", false
		}
		select {
		case <-seen:
			close(held)
			<-late
		default:
		}
		return "", false
	}
}

func extendAfterLoss(ctx context.Context, s *scene) (verdict, error) {
	a, b, err := s.two(ctx)
	if err != nil {
		return verdict{}, err
	}
	hold, err := a.Acquire(ctx, name)
	if err != nil {
		return verdict{}, err
	}
	if errors.Is(adapters.Extend(ctx, hold, s.ttl, s.ttl), adapters.ErrNoExtend) {
		giveBack(ctx, hold)
		return verdict{}, errDoesNotApply
	}
	s.lose()
	other, err := b.Acquire(ctx, name)
	if err != nil {
		return verdict{}, err
	}
	giveBack(ctx, other)
	if adapters.Extend(ctx, hold, s.ttl, s.ttl) == nil {
		return ill("**the extension succeeds**, though another held the lock in between"), nil
	}
	return well("is refused"), nil
}

// lose waits until the lock has expired.
func (s *scene) lose() {
	time.Sleep(s.ttl + s.ttl/2)
	for _, m := range s.masters {
		m.Del(name)
	}
}

func extendByNothing(ctx context.Context, s *scene) (verdict, error) {
	a, err := s.client(ctx)
	if err != nil {
		return verdict{}, err
	}
	hold, err := a.Acquire(ctx, name)
	if err != nil {
		return verdict{}, err
	}
	err = adapters.Extend(ctx, hold, s.ttl, 500*time.Microsecond)
	if errors.Is(err, adapters.ErrNoExtend) {
		return verdict{}, errDoesNotApply
	}
	stands := s.count(name) > 0
	switch {
	case err == nil && !stands:
		return ill("**deletes the lock, and reports success**"), nil
	case !stands:
		return ill("deletes the lock"), nil
	}
	giveBack(ctx, hold)
	if err == nil {
		return well("does not shorten it"), nil
	}
	return well("is refused: %v", short(err)), nil
}

func frozenMinority(ctx context.Context, s *scene) (verdict, error) {
	a, err := s.client(ctx)
	if err != nil {
		return verdict{}, err
	}
	s.masters[2].Freeze()
	began := time.Now()
	hold, err := a.Acquire(ctx, name)
	if err == nil {
		err = hold.Release(ctx)
	}
	took := time.Since(began)
	if err != nil {
		return ill("after %v: %v", took.Round(time.Millisecond), short(err)), nil
	}
	if took > 600*time.Millisecond { // a tenth of that is plenty, on a machine that has nothing else to do
		return ill("acquire and release take %v", took.Round(100*time.Millisecond)), nil
	}
	return well("acquire and release take no longer"), nil
}

func tie(ctx context.Context, s *scene) (verdict, error) {
	a, err := s.client(ctx)
	if err != nil {
		return verdict{}, err
	}
	for _, m := range s.masters[:2] {
		m.Set(name, "somebody", long)
	}
	began := time.Now()
	_, err = attempt(ctx, a, 5*time.Second)
	switch took := time.Since(began); {
	case err == nil:
		return ill("**a half is taken for a majority**"), nil
	case took > 3*time.Second:
		return ill("a refusal after %v", took.Round(100*time.Millisecond)), nil
	}
	return well("is a refusal, at once"), nil
}

func expiredOnArrival(ctx context.Context, s *scene) (verdict, error) {
	a, err := s.client(ctx)
	if err != nil {
		return verdict{}, err
	}
	for _, m := range s.masters {
		m.SetDelay(s.ttl + s.ttl/2)
	}
	_, err = attempt(ctx, a, 5*time.Second)
	_, stands := s.masters[0].Get(name)
	for _, m := range s.masters {
		m.SetDelay(0)
	}
	switch {
	case err != nil:
		return well("is no lock"), nil
	case stands:
		return well("has extended it meanwhile"), nil
	}
	return ill("**returns a lock that has expired**, which somebody else may hold"), nil
}

func clockAhead(ctx context.Context, s *scene) (verdict, error) {
	a, b, err := s.two(ctx)
	if err != nil {
		return verdict{}, err
	}
	for _, m := range s.masters {
		m.SetClock(10 * time.Second)
	}
	hold, err := a.Acquire(ctx, name)
	if err != nil {
		return ill("nobody gets the lock: %v", short(err)), nil
	}
	other, err := attempt(ctx, b, time.Second)
	if err == nil {
		giveBack(ctx, other, hold)
		return ill("**two hold it**"), nil
	}
	giveBack(ctx, hold)
	return well("makes no difference"), nil
}

// callerGivesUp has a master answer late, and the caller give up before.
func callerGivesUp(ctx context.Context, s *scene) (verdict, error) {
	a, err := s.client(ctx)
	if err != nil {
		return verdict{}, err
	}
	for _, m := range s.masters {
		m.SetDelay(200 * time.Millisecond)
	}
	_, err = attempt(ctx, a, 60*time.Millisecond)
	if err == nil {
		return ill("a lock, after its caller's deadline"), nil
	}
	for _, m := range s.masters {
		m.SetDelay(0)
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if s.count(name) == 0 {
			return well("leaves no key"), nil
		}
	}
	return ill("leaves its key on %d of %d masters, until the TTL", s.count(name), len(s.masters)), nil
}

func (s *scene) count(key string) (n int) {
	for _, m := range s.masters {
		if _, ok := m.Get(key); ok {
			n++
		}
	}
	return n
}

// short is an error's first line.
func short(err error) string {
	first, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return first
}
