package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// Rows of the table of rights in docs/operations.md.
const (
	everyLock      = "every lock"
	oneMaster      = "a node that is one master, also behind Sentinels; with or without the restart guard"
	oneCluster     = "a node that is a Redis Cluster"
	waitingForOne  = "waiting: `Acquire`, `AcquireAll`, `Do`"
	healthChecks   = "`Locker.Healthy`"
	restartGuard   = "the restart guard"
	fencing        = "fencing"
	clusterFencing = "fencing, where any node is a Redis Cluster"
	diagnosis      = "`doctor.Diagnose`, `redlock doctor`"
	admission      = "`doctor.Admit`, `redlock doctor --admit`"
	ofSentinels    = "Sentinels, for a user of their own; no other row applies to it"
)

// appPrefix is the key prefix in the documented patterns.
const appPrefix = "app/"

var codeSpan = regexp.MustCompile("`([^`]+)`")

// rightsSection is the section of docs/operations.md about the rights.
func rightsSection(t testing.TB) string {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Rights\n")
	require.True(t, found)
	section, _, found = strings.Cut(section, "\n## ")
	require.True(t, found)
	return section
}

// documented returns the rights in the given rows of the table, in the form of ACL SETUSER, without
// duplicates.
func documented(t testing.TB, rows ...string) (rights []string) {
	t.Helper()
	table, _, _ := strings.Cut(rightsSection(t), "\n    ACL SETUSER")
	for _, row := range rows {
		found := false
		for line := range strings.Lines(strings.ReplaceAll(table, `\|`, "\x00")) {
			cells := strings.Split(line, "|")
			if len(cells) != 6 || strings.TrimSpace(cells[1]) != row {
				continue
			}
			found = true
			for _, span := range codeSpan.FindAllStringSubmatch(strings.Join(cells[2:5], " "), -1) {
				for right := range strings.FieldsSeq(strings.ReplaceAll(span[1], "\x00", "|")) {
					if !slices.Contains(rights, right) {
						rights = append(rights, right)
					}
				}
			}
		}
		require.True(t, found, "no row %q in docs/operations.md", row)
	}
	return rights
}

// less returns the rights without one of them.
func less(rights []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == one })
}

// allow gives the user app exactly these rights on all servers, and clears their ACL LOG.
func allow(t testing.TB, servers []*redistest.Node, rights []string) {
	t.Helper()
	args := []any{"reset", "on", ">secret", "resetchannels", "-@all"}
	for _, r := range rights {
		args = append(args, r)
	}
	for _, n := range servers {
		setUser(t, n, args...)
		n.Do(t, "ACL", "LOG", "RESET")
	}
}

// denials returns what the servers have denied since the last call of allow.
func denials(t testing.TB, servers []*redistest.Node) (all []string) {
	t.Helper()
	for _, n := range servers {
		for _, entry := range n.Do(t, "ACL", "LOG").([]any) {
			var words []string
			for _, field := range entry.([]any) {
				if b, ok := field.([]byte); ok {
					words = append(words, string(b))
				}
			}
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

// asApp opens Lockers over the servers as the user app.
func asApp(servers []*redistest.Node, opts ...redlock.Option) func(t testing.TB, more ...redlock.Option) *redlock.Locker {
	return func(t testing.TB, more ...redlock.Option) *redlock.Locker {
		t.Helper()
		var urls []string
		for _, n := range servers {
			urls = append(urls, strings.Replace(n.URL(), "://", "://app:secret@", 1))
		}
		opts := slices.Concat([]redlock.Option{redlock.WithKeyPrefix(appPrefix), redlock.WithNodeTimeout(busyTimeout)}, opts, more)
		l, err := redlock.Open(urls, opts...)
		require.NoError(t, err)
		return l
	}
}

// exercise uses every right. If a right is missing it ignores errors, and ends at the first denial.
type exercise struct {
	t       *testing.T
	servers []*redistest.Node
	missing bool
	a, b    *redlock.Locker // like two processes
}

type step struct {
	what string
	do   func(ctx context.Context) error
}

// run runs the steps. If a right is missing it repeats them until a server denies a command.
func (x *exercise) run(steps []step) {
	x.t.Helper()
	for deadline := time.Now().Add(redistest.Slack * patience); !x.over(steps); {
		require.True(x.t, time.Now().Before(deadline), "no server denies a command")
	}
}

// over runs the steps, and reports whether the exercise is complete.
func (x *exercise) over(steps []step) bool {
	x.t.Helper()
	within := redistest.Slack * patience
	if x.missing {
		within = 3 * time.Second
	}
	for _, s := range steps {
		ctx, cancel := context.WithTimeout(x.t.Context(), within)
		var watch sync.WaitGroup
		if x.missing {
			watch.Go(func() { _ = until(ctx, x.denies); cancel() })
		}
		err := s.do(ctx)
		cancel()
		watch.Wait()
		switch denied := denials(x.t, x.servers); {
		case !x.missing:
			require.NoError(x.t, err, s.what)
			require.Empty(x.t, denied, s.what)
		case len(denied) > 0:
			return true
		}
	}
	return !x.missing
}

// denies reports whether a server has denied a command. What a step then waits for will not happen.
func (x *exercise) denies() bool {
	return slices.ContainsFunc(x.servers, func(n *redistest.Node) bool {
		entries, err := redis.Values(n.Try("ACL", "LOG", 1))
		return err == nil && len(entries) > 0
	})
}

// until waits for a condition, up to the time that the step may take.
func until(ctx context.Context, ok func() bool) error {
	for !ok() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

const (
	heldFor = 20 * time.Second
	minHold = busyTimeout + time.Second
)

// common returns the steps of Lockers of any kind, and in the middle of them more.
func (x *exercise) common(more []step) []step {
	return slices.Concat([]step{
		{"minimum hold", x.releaseEarly},
		{"acquire, extend, check, inspect, release", func(ctx context.Context) error { return x.whole(ctx, "one") }},
		{"several names", func(ctx context.Context) error { return x.whole(ctx, "{several}1", "{several}2") }},
		{"scripts that the server has forgotten", func(ctx context.Context) error {
			for _, n := range x.servers {
				n.Do(x.t, "SCRIPT", "FLUSH")
			}
			return x.whole(ctx, "{several}1", "{several}2")
		}},
		{"releases that come together", x.releaseTogether},
		{"resume", x.resume},
		{"wake up", x.wakeUp},
		{"health", x.healthy},
	}, more, []step{{"all locks are released", x.onlyLeastHeld}})
}

// least is the name of a lock with a minimum hold.
const least = "least"

// releaseEarly releases a lock before the end of its minimum hold.
func (x *exercise) releaseEarly(ctx context.Context) error {
	k, err := x.a.Acquire(ctx, least, heldFor, redlock.WithMinHold(minHold))
	if err != nil {
		return err
	}
	return k.Release(ctx)
}

// nothingHeld waits until no lock is left.
func (x *exercise) nothingHeld(ctx context.Context) error {
	return until(ctx, func() bool {
		return !slices.ContainsFunc(x.servers, func(n *redistest.Node) bool { return len(lockKeys(x.t, n)) > 0 })
	})
}

// onlyLeastHeld waits until no lock is left but the one with a minimum hold: it ends on the servers, without
// the client.
func (x *exercise) onlyLeastHeld(ctx context.Context) error {
	return until(ctx, func() bool {
		return !slices.ContainsFunc(x.servers, func(n *redistest.Node) bool {
			return slices.ContainsFunc(lockKeys(x.t, n), func(key string) bool { return key != appPrefix+least })
		})
	})
}

// releaseTogether releases so many locks at once that nodes merge their releases.
func (x *exercise) releaseTogether(ctx context.Context) error {
	errs := make([]error, 200)
	held := make([]*redlock.Lock, len(errs))
	together := func(do func(i int)) {
		var all sync.WaitGroup
		for i := range held {
			all.Go(func() { do(i) })
		}
		all.Wait()
	}
	together(func(i int) { held[i], errs[i] = x.a.Acquire(ctx, fmt.Sprint("together", i), time.Minute) })
	together(func(i int) {
		if errs[i] == nil {
			errs[i] = held[i].Release(ctx)
		}
	})
	return errors.Join(errs...)
}

func (x *exercise) healthy(ctx context.Context) error {
	return errors.Join(x.a.Healthy(ctx), x.b.Healthy(ctx))
}

// whole runs through all operations of a lock.
func (x *exercise) whole(ctx context.Context, names ...string) error {
	k, err := x.a.AcquireAll(ctx, names, heldFor)
	if err != nil {
		return err
	}
	_, looked := x.b.Inspect(ctx, names[0])
	return errors.Join(looked, k.Extend(ctx, 2*heldFor), k.Check(ctx), k.Release(ctx))
}

func (x *exercise) resume(ctx context.Context) error {
	k, err := x.a.Acquire(ctx, "moving", heldFor)
	if err != nil {
		return err
	}
	claim, err := k.Detach()
	if err != nil {
		return err
	}
	k, err = x.b.Resume(ctx, claim)
	if err != nil {
		return err
	}
	return k.Release(ctx)
}

// wakeUp has waiters of one process wait for a lock that another process holds. There are enough
// waiters that one of them queries whether other processes wait. Then all of them give up.
func (x *exercise) wakeUp(ctx context.Context) error {
	const name = "wanted"
	k, err := x.a.Acquire(ctx, name, heldFor)
	if err != nil {
		return err
	}
	waiters := make(chan error, 20)
	for range cap(waiters) {
		go func() {
			k, err := x.b.Acquire(ctx, name, heldFor)
			if err == nil {
				err = k.Release(ctx)
			}
			waiters <- err
		}()
	}
	subscribed := func(want bool) func() bool {
		return func() bool {
			some := slices.ContainsFunc(x.servers, func(n *redistest.Node) bool { return listeners(x.t, n, appPrefix+name) > 0 })
			return some == want
		}
	}
	err = until(ctx, subscribed(true))
	err = errors.Join(err, k.Release(ctx))
	for range cap(waiters) {
		err = errors.Join(err, <-waiters)
	}
	return errors.Join(err, until(ctx, subscribed(false)))
}
