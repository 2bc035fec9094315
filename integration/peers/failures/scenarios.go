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

	nodeTimeout = 500 * time.Millisecond // of our clients that are told none, and whose TTL is four times that or more

	long = 10 * time.Second // the longest TTL under the guard here, and longer than a scenario that uses it
)

var scenarios = []scenario{
	{
		name: "a release of one attempt arrives late, in the middle of the next", hazard: "H3", nodes: 3, ttl: 8 * time.Second, quorum: true,
		play: lateRelease,
	},
	{
		name: "an extension after the lock has expired and another client has held it", hazard: "H11, H12", nodes: 3,
		ttl: 400 * time.Millisecond, play: extendAfterLoss,
	},
	{
		name: "an extension by less than a millisecond", hazard: "H22", nodes: 3, ttl: long,
		play: extendByNothing,
	},
	{
		name: "one of three servers is frozen", hazard: "H56", nodes: 3, ttl: 8 * time.Second, quorum: true,
		play: frozenMinority,
	},
	{
		name: "another client holds two of four servers", hazard: "H9", nodes: 4, ttl: long, quorum: true,
		play: splitVote,
	},
	{
		name: "the answers arrive after the lock has expired", hazard: "H6", nodes: 3, ttl: 300 * time.Millisecond,
		play: expiredOnArrival,
	},
	{
		name: "the servers' clocks are ten seconds ahead", hazard: "H8", nodes: 3, ttl: 5 * time.Second,
		play: clockAhead,
	},
	{
		name: "the caller gives up in the middle of an attempt", hazard: "H2, H4", nodes: 3, ttl: long, quorum: true,
		play: callerGivesUp,
	},
}

// lateRelease has A lose an attempt while another client holds the first two servers. It delays A's
// release on the second server, and lets A win the next attempt with the second and the third. When
// the late release arrives no other client may get the lock.
func lateRelease(ctx context.Context, s *scene) (verdict, error) {
	a, b, err := s.two(ctx)
	if err != nil {
		return verdict{}, err
	}
	first, second, third := s.masters[0], s.masters[1], s.masters[2]
	for _, m := range s.masters[:2] {
		m.Set(name, "another", long)
	}
	delayed, resume := make(chan struct{}), make(chan struct{})
	second.Hook(delayFirst(name, delayed, resume))
	won := make(chan adapters.Hold, 1)
	go func() {
		if hold, err := a.Acquire(ctx, name); err == nil {
			won <- hold
		}
	}()
	select {
	case <-delayed:
	case <-time.After(5 * time.Second):
		close(resume)
		return well("sends no release to a server that refused"), nil
	}
	second.Del(name) // free now, while the first is still held
	var hold adapters.Hold
	select {
	case hold = <-won:
	case <-time.After(3 * time.Second):
	}
	close(resume)
	second.Hook(nil)
	if hold == nil {
		return well("waits for its release before it uses that server's vote again"), nil
	}
	time.Sleep(300 * time.Millisecond) // the late release is executed
	_, exists := second.Get(name)
	first.Del(name)
	other, err := attempt(ctx, b, 2*time.Second)
	_, own := third.Get(name)
	switch {
	case err == nil && own:
		release(ctx, other, hold)
		return ill("two holders", "the late release deletes the grant of the next attempt: two clients hold the lock"), nil
	case !exists:
		return ill("grant deleted", "its own late release deletes its grant"), nil
	}
	release(ctx, hold)
	return well("the late release deletes nothing"), nil
}

// release releases the holds of a scenario. It ignores errors: the scenario may have broken the holds.
func release(ctx context.Context, holds ...adapters.Hold) {
	for _, h := range holds {
		_ = h.Release(ctx)
	}
}

// delayFirst returns a hook that delays the first script for the key: it closes delayed, and runs
// the script when resume is closed.
func delayFirst(key string, delayed, resume chan struct{}) func(int64, string, []string) (string, bool) {
	seen := make(chan struct{}, 1)
	seen <- struct{}{}
	return func(_ int64, cmd string, args []string) (string, bool) {
		if !strings.HasPrefix(cmd, "EVAL") || len(args) < 3 || args[2] != key {
			return "", false
		}
		select {
		case <-seen:
			close(delayed)
			<-resume
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
		release(ctx, hold)
		return verdict{}, errDoesNotApply
	}
	s.expire()
	other, err := b.Acquire(ctx, name)
	if err != nil {
		return verdict{}, err
	}
	release(ctx, other)
	if adapters.Extend(ctx, hold, s.ttl, s.ttl) == nil {
		return ill("succeeds", "the extension succeeds, though another client held the lock in between"), nil
	}
	return well("is refused"), nil
}

// expire waits until the lock has expired, and deletes what is left of it.
func (s *scene) expire() {
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
	exists := s.count(name) > 0
	switch {
	case err == nil && !exists:
		return ill("deletes the lock", "the extension deletes the lock and reports success"), nil
	case !exists:
		return ill("deletes the lock", "the extension deletes the lock and reports an error"), nil
	}
	release(ctx, hold)
	if err == nil {
		return well("does not shorten it"), nil
	}
	return well("is refused: %v", firstLine(err)), nil
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
		failed := ill
		if took >= nodeTimeout { // one of the other two may have answered too late
			failed = tooSlow
		}
		return failed("error", "acquire and release fail after %v: %v", took.Round(time.Millisecond), firstLine(err)), nil
	}
	if took > 600*time.Millisecond { // an idle machine needs less than a tenth of that
		return tooSlow(rounded(took), "acquire and release take %s", rounded(took)), nil
	}
	return well("acquire and release take no longer than without the fault"), nil
}

func splitVote(ctx context.Context, s *scene) (verdict, error) {
	a, err := s.client(ctx)
	if err != nil {
		return verdict{}, err
	}
	for _, m := range s.masters[:2] {
		m.Set(name, "another", long)
	}
	began := time.Now()
	_, err = attempt(ctx, a, 5*time.Second)
	switch took := time.Since(began); {
	case err == nil:
		return ill("half is enough", "half of the servers count as a majority"), nil
	case took > 3*time.Second:
		return tooSlow(rounded(took), "the attempt is refused after %s", rounded(took)), nil
	}
	return well("the attempt is refused at once"), nil
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
	_, exists := s.masters[0].Get(name)
	for _, m := range s.masters {
		m.SetDelay(0)
	}
	switch {
	case err != nil:
		return well("the attempt returns no lock"), nil
	case exists:
		return well("the lock has been extended meanwhile"), nil
	}
	return ill("returns a lock", "the attempt returns a lock that has expired and that another client may hold"), nil
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
		return ill("no lock", "no client gets the lock: %v", firstLine(err)), nil
	}
	other, err := attempt(ctx, b, time.Second)
	if err == nil {
		release(ctx, other, hold)
		return ill("two holders", "two clients hold the lock"), nil
	}
	release(ctx, hold)
	return well("the clocks make no difference"), nil
}

// callerGivesUp delays the answers of all servers, so that the caller gives up before they arrive.
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
		return ill("late lock", "the caller gets a lock after its deadline"), nil
	}
	for _, m := range s.masters {
		m.SetDelay(0)
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if s.count(name) == 0 {
			return well("no key is left"), nil
		}
	}
	return ill("keys left", "the attempt leaves its key on %d of %d servers, until the TTL", s.count(name), len(s.masters)), nil
}

// count returns how many servers have the key.
func (s *scene) count(key string) (n int) {
	for _, m := range s.masters {
		if _, ok := m.Get(key); ok {
			n++
		}
	}
	return n
}

// rounded returns d in 100 ms.
func rounded(d time.Duration) string {
	if d = d.Round(100 * time.Millisecond); d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}

// firstLine returns the first line of an error.
func firstLine(err error) string {
	first, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return first
}
