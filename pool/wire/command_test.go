package wire_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// answers counts and keeps what a command was answered.
type answers struct {
	n    atomic.Int32
	last wire.Reply
}

func (a *answers) Answer(_ *wire.Command, r wire.Reply) {
	a.n.Add(1)
	a.last = r
}

func TestACommandThatWasGivenUpInTimeIsNeverSent(t *testing.T) {
	var c wire.Command
	require.True(t, c.Cancel(), "nothing of it has left")
	require.False(t, c.MarkSent())
	require.False(t, c.MarkSent(), "nor later")
	require.True(t, c.Cancel(), "giving up twice says the same")
}

func TestACommandThatWasSentIsToBeUndone(t *testing.T) {
	var c wire.Command
	require.True(t, c.MarkSent())
	require.False(t, c.Cancel())
}

func TestAScriptThatTheNodeDidNotKnowIsSentOnceMoreByItsText(t *testing.T) {
	var c wire.Command
	require.True(t, c.MarkSent())
	require.False(t, c.UsesEval())
	require.True(t, c.UnmarkForEval())
	require.True(t, c.UsesEval())
	require.True(t, c.MarkSent())
	require.False(t, c.Cancel())
}

// docs/dev/hazards.md H28: an undo that was queued after Cancel must find nothing behind it.
func TestAScriptThatWasGivenUpBeforeItsNOSCRIPTIsNotSentAgain(t *testing.T) {
	var c wire.Command
	require.True(t, c.MarkSent())
	require.False(t, c.Cancel(), "its bytes have left: an undo is due")
	require.False(t, c.UnmarkForEval())
	require.False(t, c.MarkSent())
}

func TestAScriptThatIsGivenUpBetweenNOSCRIPTAndItsTextNeedsNoUndo(t *testing.T) {
	var c wire.Command
	require.True(t, c.MarkSent())
	require.True(t, c.UnmarkForEval())
	require.True(t, c.Cancel(), "the node executed nothing, and nothing will follow")
	require.False(t, c.MarkSent())
}

// Whoever comes first, what Cancel says is what has happened: true, and nothing is
// out nor ever will be; false, and one writing is out.
func TestGivingUpAndSendingAgreeWhoCameFirst(t *testing.T) {
	var unsents int
	for round := range 5000 {
		var c wire.Command
		var out atomic.Int32 // writings that have executed, or may yet
		var unsent bool
		var late atomic.Bool // a Send that said yes after Cancel had said unsent
		var given atomic.Bool
		send := func() bool {
			after := given.Load()
			if !c.MarkSent() {
				return false
			}
			out.Add(1)
			late.Store(late.Load() || after)
			return true
		}
		var g sync.WaitGroup
		begin := make(chan struct{})
		g.Go(func() {
			<-begin
			if !send() || round%2 == 0 {
				return
			}
			if c.UnmarkForEval() { // NOSCRIPT
				out.Add(-1)
				send()
			}
		})
		g.Go(func() {
			<-begin
			unsent = c.Cancel()
			given.Store(true)
		})
		close(begin)
		g.Wait()
		require.False(t, late.Load(), "sent after it was given up")
		if unsent {
			unsents++
			require.Zero(t, out.Load(), "said to be unsent")
			require.False(t, c.MarkSent())
		} else {
			require.Equal(t, int32(1), out.Load())
		}
	}
	require.Positive(t, unsents)
}

func TestACommandIsAnsweredOnce(t *testing.T) {
	var a answers
	c := wire.Command{To: &a}
	var g sync.WaitGroup
	for range 64 {
		g.Go(func() { c.Answer(wire.Reply{Outcome: wire.Granted}) })
	}
	g.Wait()
	require.Equal(t, int32(1), a.n.Load())

	var nobody wire.Command
	nobody.Answer(wire.Reply{}) // nobody wants to know
}

func TestADroppedCommandSaysWhetherItEverLeft(t *testing.T) {
	reason := errors.New("no use any more")
	for name, test := range map[string]struct {
		before func(c *wire.Command)
		want   wire.Reply
	}{
		"never sent": {func(*wire.Command) {}, wire.Reply{Outcome: wire.Failed, NotSent: true, Err: reason}},
		"given up":   {func(c *wire.Command) { c.Cancel() }, wire.Reply{Outcome: wire.Failed, NotSent: true, Err: reason}},
		"answered by NOSCRIPT": {func(c *wire.Command) {
			c.MarkSent()
			c.UnmarkForEval()
		}, wire.Reply{Outcome: wire.Failed, NotSent: true, Err: reason}},
		"sent": {func(c *wire.Command) { c.MarkSent() }, wire.Reply{Outcome: wire.Unknown, Err: reason}},
		"an undo of an earlier connection": {func(c *wire.Command) {
			c.MarkSent()
			c.MarkResend()
		}, wire.Reply{Outcome: wire.Unknown, Err: reason}},
	} {
		t.Run(name, func(t *testing.T) {
			var a answers
			c := wire.Command{To: &a}
			test.before(&c)
			c.Fail(reason)
			require.Equal(t, test.want, a.last)
			require.False(t, c.MarkSent(), "what was dropped is not sent")
		})
	}
}

func TestAnUndoMayBeSentOnOneConnectionAfterTheOther(t *testing.T) {
	var c wire.Command
	for range 3 {
		require.True(t, c.MarkSent())
		c.MarkResend()
	}
}
