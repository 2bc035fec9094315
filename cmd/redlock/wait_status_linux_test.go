package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnATerminalALineShowsTheHolder(t *testing.T) {
	t.Parallel()
	all := masters(t)
	holdAll(all, "job", "alice:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
	s := onScreen(t, all, `"$0" run job -- sh -c 'echo begun; read x'; echo "status: $?"`)
	s.shows("\rredlock: waiting 1m0s at most for job: held by \"alice\" for ")
	s.shows(")\x1b[K") // the ID of the lock
	holdAll(all, "job", "bob:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
	announce(t, all, "job") // as alice's release would
	s.shows("held by \"bob\" for ")
	setFree(all, "job")
	s.shows("\r\x1b[Kbegun") // on a line that is clean again
	s.types("\n")
	s.shows("status: 0")
}

func TestTheLineIsGoneWhenTheWaitWasInVain(t *testing.T) {
	t.Parallel()
	all := masters(t)
	holdAll(all, "job", "alice:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
	s := onScreen(t, all, `"$0" run --wait 3s job -- true; echo "status: $?"`)
	s.shows("\rredlock: waiting ")
	s.shows("\r\x1b[Kredlock: job: held by \"alice\"")
	s.shows("status: 75")
	setFree(all, "job")
}

// A job in the background tells it once, and does not write over what the shell does.
func TestInTheBackgroundThereIsNoLine(t *testing.T) {
	t.Parallel()
	all := masters(t)
	holdAll(all, "job", "alice:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
	s := onScreen(t, all, `set -m; "$0" run --wait 2s job -- true & wait $!; echo "status: $?"`)
	s.shows("redlock: waiting up to 2s for job: held by \"alice\"")
	s.shows("status: 75")
	require.NotContains(t, s.seen.String(), "\x1b[K")
	setFree(all, "job")
}

func TestWithoutATerminalThereIsNoLine(t *testing.T) {
	t.Parallel()
	all := masters(t)
	holdAll(all, "job", "alice:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
	p := start(t, all, "run", "--wait", "1500ms", "job", "--", "true")
	require.Equal(t, 75, p.status())
	require.NotContains(t, p.messages(), "\x1b")
	setFree(all, "job")
}
