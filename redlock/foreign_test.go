package redlock

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// planted sets a terminal's colour, ends a line and reverses the direction of its text.
const planted = "\x1b[31m\n\u202e"

// requireShowable fails if a text contains control characters or a long run of z. One newline at
// the end is allowed, as in a line of a log.
func requireShowable(t *testing.T, text string) {
	t.Helper()
	for _, r := range strings.TrimSuffix(text, "\n") {
		require.True(t, unicode.IsPrint(r), "%q in %q", r, text)
	}
	require.NotContains(t, text, strings.Repeat("z", 520))
}

// requireAllShowable calls requireShowable for errors, and for values in every form in which
// programs print one.
func requireAllShowable(t *testing.T, all ...any) {
	t.Helper()
	for _, v := range all {
		if err, isError := v.(error); isError {
			requireShowable(t, err.Error())
			continue
		}
		for _, form := range printed(t, v) {
			requireShowable(t, form)
		}
	}
}

// plant sets a key on all masters that does not expire.
func (fl *testbed) plant(key, value string) {
	fl.each(func(m *fakeredis.Master) { m.Set(key, value, 0) })
}

func TestTheLabelsOfOthersArePrintable(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		fl.plant("a", planted+":ABCDEFGHIJKLMNOPQRSTUVWXYZ")
		_, err := l.TryAcquire(bg, "a", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorContains(t, err, "[31m")
		var held *HeldError
		require.ErrorAs(t, err, &held)
		status, inspectErr := l.Inspect(bg, "a")
		require.NoError(t, inspectErr)
		require.Equal(t, `\x1b[31m\x0a\u202e`, status.Owner)
		requireAllShowable(t, err, held.Owner, status.Owner, status.Nodes[0].Owner, status.Nodes[0].Token)
		fl.answered()
		requireAllShowable(t, log.text.String())
	})
}

// A user's own node may answer a label of any length.
func TestALongLabelIsCut(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		long := planted + strings.Repeat("z", 10<<10) + ":ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		for _, n := range nodes {
			n.held["a"] = long
		}
		_, err := l.TryAcquire(bg, "a", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		status, inspectErr := l.Inspect(bg, "a")
		require.NoError(t, inspectErr)
		require.Contains(t, status.Owner, "zzz")
		requireAllShowable(t, err, status.Owner, status.Nodes[0].Token)
	})
}

func TestTheMarkersOfOthersArePrintable(t *testing.T) {
	long := planted + strings.Repeat("z", 10<<10)
	for _, marker := range []string{long, "2|r|0|60000|0|f|" + url.QueryEscape(long) + "|ok", "2|r|0|60000|0|f|n|" + planted} {
		for _, opts := range [][]Option{nil, {WithRestartGuard(longGuard)}} {
			log := &logged{}
			inBubble(t, 3, func(fl *testbed) {
				fl.plant(guard.Key, marker)
				l := fl.locker(append(opts, WithLogger(log.logger()))...)
				_, err := l.TryAcquire(bg, "a", time.Minute)
				require.Error(t, err)
				requireAllShowable(t, err)
				fl.answered()
				for _, line := range log.lines() {
					requireShowable(t, line)
				}
			})
		}
	}
}

// A claim may come from anywhere, and its names become the lock's.
func TestAClaimOfOthersIsPrintable(t *testing.T) {
	log := &logged{}
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithLogger(log.logger()))
		const random = ":ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		fl.each(func(m *fakeredis.Master) { m.Set(planted, "me"+random, time.Minute) })
		text, err := Claim{Names: []string{planted}, Token: planted + random, TTL: time.Minute}.MarshalText()
		require.NoError(t, err)
		var claim Claim
		require.NoError(t, claim.UnmarshalText(text))
		_, refused := l.Resume(bg, claim)
		require.ErrorIs(t, refused, ErrInvalid)
		requireAllShowable(t, claim.String(), fmt.Sprintf("%+v %#v", claim, claim), refused)
		claim.Token = "me" + random
		k, err := l.Resume(bg, claim)
		require.NoError(t, err)
		_, again := l.Resume(bg, claim)
		require.ErrorIs(t, again, ErrAlreadyHeld)
		requireAllShowable(t, k, again)
		fl.each(func(m *fakeredis.Master) { m.Del(planted) })
		lost := k.Release(bg)
		require.ErrorIs(t, lost, ErrLost)
		_, gone := fl.locker().Resume(bg, claim)
		require.ErrorIs(t, gone, ErrLost)
		claim.Names = []string{strings.Repeat("z", 10<<10)}
		_, long := fl.locker().Resume(bg, claim)
		require.ErrorIs(t, long, ErrInvalid)
		var damaged Claim
		requireAllShowable(t, lost, gone, long, damaged.UnmarshalText([]byte(planted)))
		fl.answered()
		require.Contains(t, log.text.String(), "[31m")
		for _, line := range log.lines() {
			requireShowable(t, line)
		}
	})
}
