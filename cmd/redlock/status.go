package main

import (
	"context"

	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
)

const statusSynopsis = "NAME [--json]"

const statusText = `It asks all masters once and changes nothing. The answer is a look, not a promise:
it may be out of date when it is read.

With --json it prints one object:
  name     the lock
  state    "held": one holder has a quorum; "free": nobody can have one;
           "unclear": too few masters answered to say which
  owner    the holder's label, "" when it has none; only when held
  left_ms  for how long a quorum keeps it unless it is released or extended;
           -1 without an expiry; only when held
  nodes    for each master
    node      its name
    held      whether a lock's key stands there
    owner     its holder's label
    left_ms   as above
    error     why it said nothing, or what is wrong with its key

Exit status: 0 when a quorum answered, 69 when none did (what the others said is
printed), 64 for wrong usage.

Example:
  redlock status --nodes redis://a:6379,redis://b:6379,redis://c:6379 invoice/42
`

// status is the subcommand.
func status(ctx context.Context, c *call) int {
	f := newForm(c, statusText)
	given := nodesFlag(f.FlagSet)
	asJSON := f.Bool("json", false, "print an object for programs (see below)")
	words, behind, _, exit, done := f.read()
	if done {
		return exit
	}
	if words = append(words, behind...); len(words) != 1 {
		return c.misused("one NAME is needed, %d given", len(words))
	}
	urls, err := c.nodes(*given)
	if err != nil {
		return c.misused("%v", err)
	}
	locker, err := redlock.Open(urls, redlock.WithNodeTimeout(coldTimeout))
	if err != nil {
		return c.misused("%v", err)
	}
	defer closeSoon(locker)
	s, err := locker.Inspect(ctx, words[0])
	if s == nil {
		c.say("%v", err)
		return refusal(err)
	}
	show := printStatus
	if *asJSON {
		show = printStatusJSON
	}
	show(c.stdout, s, stateOf(s))
	if err != nil {
		c.say("%v", err)
		return refusal(err)
	}
	return exitOK
}

// state is what a status comes to.
type state string

const (
	held    state = "held"
	free    state = "free"
	unclear state = "unclear"
)

// stateOf is free only where no holder can have a quorum, counting every master that
// said nothing for it.
func stateOf(s *redlock.Status) state {
	if s.Held {
		return held
	}
	silent, most, copies := 0, 0, map[string]int{}
	for _, n := range s.Nodes {
		switch {
		case n.Err != nil:
			silent++
		case n.Held:
			// By owner, because tokens are masked: two tokens of one owner count as one
			// holder, which errs to the side of unclear.
			copies[n.Owner]++
			most = max(most, copies[n.Owner])
		}
	}
	if silent > 0 && most+silent >= quorum.Majority(len(s.Nodes)) {
		return unclear
	}
	return free
}
