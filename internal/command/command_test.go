package command_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// answers counts and keeps a command's answers.
type answers struct {
	n    atomic.Int32
	last command.Reply
}

func (a *answers) Answer(_ *command.Command, r command.Reply) {
	a.n.Add(1)
	a.last = r
}

func TestACommandThatWasGivenUpInTimeIsNeverSent(t *testing.T) {
	var c command.Command
	require.True(t, c.Cancel(), "nothing of it has left")
	require.False(t, c.MarkSent())
	require.False(t, c.MarkSent(), "nor later")
	require.True(t, c.Cancel(), "giving up twice says the same")
}

func TestACommandThatWasSentIsToBeUndone(t *testing.T) {
	var c command.Command
	require.True(t, c.MarkSent())
	require.False(t, c.Cancel())
}

func TestAScriptThatTheNodeDidNotKnowIsSentOnceMoreByItsText(t *testing.T) {
	var c command.Command
	require.True(t, c.MarkSent())
	require.False(t, c.UsesEval())
	require.True(t, c.UnmarkForEval())
	require.True(t, c.UsesEval())
	require.True(t, c.MarkSent())
	require.False(t, c.Cancel())
}

// docs/dev/hazards.md H28: an undo that was queued after Cancel must be the last command of its
// token.
func TestAScriptThatWasGivenUpBeforeItsNOSCRIPTIsNotSentAgain(t *testing.T) {
	var c command.Command
	require.True(t, c.MarkSent())
	require.False(t, c.Cancel(), "its bytes have left: an undo is due")
	require.False(t, c.UnmarkForEval())
	require.False(t, c.MarkSent())
}

func TestAScriptThatIsGivenUpBetweenNOSCRIPTAndItsTextNeedsNoUndo(t *testing.T) {
	var c command.Command
	require.True(t, c.MarkSent())
	require.True(t, c.UnmarkForEval())
	require.True(t, c.Cancel(), "the node executed nothing, and nothing will follow")
	require.False(t, c.MarkSent())
}

// Whichever comes first, the result of Cancel is true of the writes. If Cancel returns true,
// nothing was or will be written. If it returns false, one write has happened.
func TestCancelAndMarkSentAgreeOnTheirOrder(t *testing.T) {
	var unsents int
	for round := range 5000 {
		var c command.Command
		var out atomic.Int32 // writes that have executed, or may yet
		var unsent bool
		var late atomic.Bool // MarkSent succeeded after Cancel had returned unsent
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
	c := command.Command{To: &a}
	var g sync.WaitGroup
	for range 64 {
		g.Go(func() { c.Answer(command.Reply{Outcome: command.Granted}) })
	}
	g.Wait()
	require.Equal(t, int32(1), a.n.Load())

	var unsent command.Command
	unsent.Answer(command.Reply{}) // without a receiver
}

func TestADroppedCommandSaysWhetherItEverLeft(t *testing.T) {
	reason := errors.New("no use any more")
	for name, test := range map[string]struct {
		before func(c *command.Command)
		want   command.Reply
	}{
		"never sent": {func(*command.Command) {}, command.Reply{Outcome: command.Failed, NotSent: true, Err: reason}},
		"given up":   {func(c *command.Command) { c.Cancel() }, command.Reply{Outcome: command.Failed, NotSent: true, Err: reason}},
		"answered by NOSCRIPT": {func(c *command.Command) {
			c.MarkSent()
			c.UnmarkForEval()
		}, command.Reply{Outcome: command.Failed, NotSent: true, Err: reason}},
		"sent": {func(c *command.Command) { c.MarkSent() }, command.Reply{Outcome: command.Unknown, Err: reason}},
		"an undo of an earlier connection": {func(c *command.Command) {
			c.MarkSent()
			c.MarkResend()
		}, command.Reply{Outcome: command.Unknown, Err: reason}},
	} {
		t.Run(name, func(t *testing.T) {
			var a answers
			c := command.Command{To: &a}
			test.before(&c)
			c.Fail(reason)
			require.Equal(t, test.want, a.last)
			require.False(t, c.MarkSent(), "what was dropped is not sent")
		})
	}
}

func TestAnUndoMayBeSentOnOneConnectionAfterTheOther(t *testing.T) {
	var c command.Command
	for range 3 {
		require.True(t, c.MarkSent())
		c.MarkResend()
	}
}
