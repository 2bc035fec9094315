package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// needs lists what fails without a right. A right without an entry is optional: the comment says
// what it is for.
var needs = map[string][]string{
	"+set":     {"acquire", "acquire several", "acquire fenced", "acquire guarded"},
	"+evalsha": {"acquire several", "extend", "check", "inspect", "release", "acquire fenced", "acquire guarded"},
	"+get":     {"extend", "check", "inspect", "release", "acquire fenced", "acquire guarded"},
	"+del":     {"release"},
	"+exists":  {"acquire several"},
	"+type":    {"check", "inspect"},
	"+strlen":  {"check", "inspect"},
	"+pttl":    {"extend", "check", "inspect"},
	"+pexpire": {"extend"},
	"+ping":    {"healthy"},
	"+info":    {"acquire", "acquire several", "healthy", "acquire fenced", "acquire guarded"}, // a node that does not report its role does not vote
	"+time":    {"acquire fenced"},                                                             // with the guard, no quarantine can begin or end without it

	"~app/*":               {"acquire", "acquire several", "acquire fenced", "acquire guarded"},
	"~redlock:fence:app/*": {"acquire fenced"},
	"~redlock:guard":       {"acquire guarded"}, // without the guard, the library cannot see that other clients use it

	"+eval":           nil, // not needed while the scripts are loaded and are not flushed
	"+script|load":    nil, // EVAL sends a script that the server does not know
	"+client|setname": nil, // names the connections for operators
	"+client|info":    nil, // without it the database is assumed to be the selected one, and client|id is needed
	"+client|id":      nil, // one of these two, and client|kill, end a connection that died with an unanswered acquire;
	"+client|kill":    nil, // without them, sweeps follow the undos instead
	"+publish":        nil, // these two wake waiters of other processes, which otherwise find a release by a poll;
	"+subscribe":      nil, // see TestWakeWithoutTheRightToPublishOrSubscribe
	"+unsubscribe":    nil, // without it a connection ends with each name that has no waiters left, and the others are subscribed again
	"+pubsub|numsub":  nil, // without it other processes are assumed to wait
	"+mget":           nil, // without it each release is sent by itself

	"&redlock:free:app/*": nil, // for publish and subscribe
}

// denial matches the errors of servers. The second and the third form come out of a script.
const denial = "NOPERM|The user executing the script can't|ACL failure in script"

// setUser gives the user app rights on a node. Redis 6.0 has no rights for channels: a user with
// the commands may use all channels.
func setUser(t testing.TB, n *redistest.Node, rights ...any) {
	t.Helper()
	if _, err := n.Try("ACL", "SETUSER", "nobody", "resetchannels"); err != nil {
		rights = slices.DeleteFunc(slices.Clone(rights), func(r any) bool {
			return r == "resetchannels" || strings.HasPrefix(fmt.Sprint(r), "&")
		})
	}
	n.Do(t, "ACL", append([]any{"SETUSER", "app"}, rights...)...)
}

func TestTheRightsThatAreNeeded(t *testing.T) {
	nodes := masters(t, 2)
	rights := documented(t, everyLock, oneMaster, waitingForOne, healthChecks, fencing)
	guard := redlock.WithRestartGuard(time.Hour)
	admin := open(t, nodes[1:], guard)
	mustAdmit(t, admin, nodes[1:])
	can := func(rights []string, unchecked bool) []string {
		allow(t, nodes, rights)
		for _, n := range nodes {
			n.Do(t, "SCRIPT", "FLUSH")
		}
		as := func(n *redistest.Node, opts ...redlock.Option) *redlock.Locker {
			if unchecked {
				opts = append(opts, redlock.WithUnsafeNodes(n.Addr()+"/0"))
			}
			opts = append(opts, redlock.WithNodeTimeout(patience/2)) // the first attempt dials
			return asApp([]*redistest.Node{n}, opts...)(t)
		}
		plain, fenced, guarded := as(nodes[0]), as(nodes[0], redlock.WithFencing()), as(nodes[1], guard)
		defer closeLocker(t, plain)
		defer closeLocker(t, fenced)
		defer closeLocker(t, guarded)
		failed := inabilities(t, plain)
		failed = append(failed, inability(t, "acquire fenced", fenced)...)
		failed = append(failed, inability(t, "acquire guarded", guarded)...)
		for _, n := range nodes {
			for _, key := range lockKeys(t, n) { // locks that could not be released
				n.Do(t, "DEL", key)
			}
		}
		return failed
	}
	assert.ElementsMatch(t, rights, slices.Collect(maps.Keys(needs)), "the list in docs/operations.md")
	assert.Empty(t, can(rights, false), "all rights that are listed")
	for _, right := range slices.Sorted(maps.Keys(needs)) {
		assert.Equal(t, needs[right], can(less(rights, right), false), "without %s", right)
	}
	optional := slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return needs[r] == nil && r != "+eval" })
	assert.Empty(t, can(optional, false), "without all optional rights")
	silent := less(rights, "+info")
	assert.Equal(t, []string{"acquire guarded"}, can(silent, true), "without checks of the nodes, only the guard needs the role")
	for _, right := range []string{"+time", "+info"} {
		nodes[1].Do(t, "DEL", "redlock:guard")
		assert.Contains(t, can(less(rights, right), false), "acquire guarded", "a quarantine cannot begin without %s", right)
	}
}

// inabilities returns what fails with a Locker. Each failure must be reported with the server's
// error.
func inabilities(t *testing.T, l *redlock.Locker) (failed []string) {
	t.Helper()
	ctx, ttl := t.Context(), time.Minute
	try := func(what string, err error) bool {
		t.Helper()
		if err == nil {
			return true
		}
		failed = append(failed, what)
		if assert.Regexp(t, denial, err.Error(), what) { // the error is known before anything is executed
			assert.Equal(t, redlock.OutcomeFailed, votesOf(t, err)[0].Outcome, "%s: %v", what, err)
		}
		return false
	}
	k, err := l.TryAcquire(ctx, "x", ttl)
	try("acquire", err)
	all, err := l.TryAcquireAll(ctx, []string{"y", "z"}, ttl)
	if try("acquire several", err) {
		_ = all.Release(context.Background())
	}
	if k != nil {
		try("extend", k.Extend(ctx, 2*ttl))
		try("check", k.Check(ctx))
	}
	_, err = l.Inspect(ctx, "x")
	if k != nil {
		try("inspect", err)
		try("release", k.Release(ctx))
	}
	try("healthy", l.Healthy(ctx))
	return failed
}

// inability returns the name of the operation if an acquisition fails.
func inability(t *testing.T, what string, l *redlock.Locker) []string {
	t.Helper()
	k, err := l.TryAcquire(t.Context(), what, time.Minute)
	if err != nil {
		assert.Regexp(t, denial, err.Error(), what)
		return []string{what}
	}
	_ = k.Release(t.Context())
	return nil
}

func TestAKeyWithoutARightIsRefusedByTheServer(t *testing.T) {
	nodes := masters(t, 3)
	urls := make([]string, len(nodes))
	for i, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~app/*", "+@all")
		urls[i] = "redis://app:secret@" + n.Addr()
	}
	l, err := redlock.Open(urls, redlock.WithNodeTimeout(busyTimeout))
	require.NoError(t, err)
	defer closeLocker(t, l)
	released(t, acquired(t, l, "app/x", time.Minute))
	for what, names := range map[string][]string{"one": {"x"}, "several": {"app/x", "x"}} {
		_, err = l.TryAcquireAll(t.Context(), names, time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, what)
		assert.Regexp(t, denial, err.Error(), what)
		for _, v := range votesOf(t, err) {
			assert.NotEqual(t, redlock.OutcomeGranted, v.Outcome, "%s: %v", what, v)
		}
		assert.NotContains(t, err.Error(), "secret")
	}
	redistest.NoKeys(t, nodes, time.Second)
}
