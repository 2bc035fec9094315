package main

import (
	"testing"
	"time"
)

func TestOnATerminalAWatchIsWrittenOverAndEndsWithCtrlC(t *testing.T) {
	t.Parallel()
	all := trio(t, 3)
	s := onScreen(t, all, `trap : INT; stty cols 40 rows 20; "$0" status --watch --interval 100ms job; echo "status: $?"`)
	s.shows("\r\x1b[J\x1b[1mjob\x1b[0m is held by \"anna\" for ")
	s.shows("\x1b[32m●\x1b[0m a")
	s.shows("every 100ms; Ctrl-C ends it")
	s.shows("\x1b[8A\r\x1b[J") // over its own lines
	setFree(all, "job")
	s.shows("\x1b[1mjob\x1b[0m is free")
	s.types(ctrlC)
	s.shows("status: 0")
}

func TestWithNoColorThereAreNone(t *testing.T) {
	t.Parallel()
	s := onScreen(t, trio(t, 3), `NO_COLOR=1 "$0" status job; "$0" status job; TERM=dumb "$0" doctor; echo done`)
	s.shows("job is held by \"anna\"")
	s.shows("● a")
	s.shows("\x1b[1mjob\x1b[0m is held by \"anna\"")
	s.shows("\r\n! a")
	s.shows("done")
}

func TestTheLineOfAWaitIsShownWhileTheShellCatchesTheClaim(t *testing.T) {
	t.Parallel()
	all := masters(t)
	holdAll(all, "job", "alice:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
	s := onScreen(t, all, `CLAIM=$("$0" acquire job); echo "status: $?"; echo "$CLAIM" | "$0" release -; echo "released: $?"`)
	s.shows("\rredlock: waiting 1m0s at most for job: held by \"alice\" for ")
	s.shows(")\x1b[K") // the ID of the lock
	setFree(all, "job")
	s.shows("\r\x1b[Kstatus: 0")
	s.shows("released: 0")
}

func TestOnATerminalABenchShowsHowFarItIs(t *testing.T) {
	t.Parallel()
	s := onScreen(t, masters(t), `"$0" bench --for 700ms >/dev/null; echo "status: $?"`)
	s.shows("s of 700ms, ")
	s.shows(" locks, 0 failed\x1b[K")
	s.shows("\r\x1b[Kstatus: 0")
}

func TestCtrlCEndsABenchWithItsResult(t *testing.T) {
	t.Parallel()
	all := masters(t)
	s := onScreen(t, all, `trap : INT; "$0" bench --for 5m | (trap "" INT; cat); echo over`)
	s.shows(" locks, 0 failed\x1b[K")
	s.types(ctrlC)
	s.shows("locks acquired and released in ")
	s.shows("over")
}
