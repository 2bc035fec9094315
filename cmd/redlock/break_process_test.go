//go:build unix && !aix && !solaris

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// The process reads the keys before it shows the lock, and the answer comes after the change.
func TestALockThatChangesAfterItWasShownIsNotBroken(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		status int
		values [3]string // of the nodes afterwards
		change func(all []*fakeredis.Master)
	}{
		"another holder": {exitLost, [3]string{token2, token2, token2}, func(all []*fakeredis.Master) {
			holdAll(all, "job", token2, time.Minute)
		}},
		"another holder on a quorum": {exitLost, [3]string{token2, token2, token}, func(all []*fakeredis.Master) {
			holdAll(all[:2], "job", token2, time.Minute)
		}},
		"another holder on a minority": {exitOK, [3]string{token2, "", ""}, func(all []*fakeredis.Master) {
			holdAll(all[:1], "job", token2, time.Minute)
		}},
		"released": {exitLost, [3]string{}, func(all []*fakeredis.Master) { setFree(all, "job") }},
		"no quorum": {exitUnavailable, [3]string{token, token, token}, func(all []*fakeredis.Master) {
			all[0].Stop()
			all[1].Stop()
		}},
	} {
		all := listing(t)
		holdAll(all, "job", token, time.Minute)
		p := start(t, all, "break", "job")
		require.Contains(t, p.message(), `job is held by "anna"`, what)
		c.change(all)
		p.say("y")
		require.Equal(t, c.status, p.status(), what)
		messages := p.messages()
		allAnswered(t, all...)
		require.Equal(t, c.status != exitOK, strings.Contains(messages, "nothing was deleted"), "%s: %s", what, messages)
		for i, m := range all {
			value, _ := m.Get("job")
			require.Equal(t, c.values[i], value, "%s: %s", what, m.Name())
		}
	}
}

// The holder extends the lock while the question is open.
func TestABreakCountsWhatTheHolderExtendedMeanwhile(t *testing.T) {
	t.Parallel()
	all := listing(t)
	holdAll(all, "job", token, time.Minute)
	p := start(t, all, "break", "job")
	require.Regexp(t, `for (1m0s|5\d[.\d]*s), on a, b, c$`, p.message())
	holdAll(all, "job", token, time.Hour)
	p.say("y")
	require.Regexp(t, `may believe for (1h0m0s|59m[0-5]\d[.\d]*s|1h0m0\.\d+s) more`, p.line())
	require.Equal(t, exitOK, p.status(), p.messages())
	releasedEverywhere(t, all...)
}
