package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// tracedClient is a client's view of the trace. It is a vote.Observer.
type tracedClient struct {
	*trace
	client *client
}

// tracedRound is a round about a lock that a client has begun.
type tracedRound struct {
	name, op, token string
	names           []string
	ttl             time.Duration
	number          int64         // the fence that it confirms
	began           clock.Instant // by the client's clock, when the line was written
	from            int           // the executions before are not of this round
	answers         map[int]command.Reply
	executed        map[int]*execution // by node, those whose round is known
}

// words are the names of operations in traces. An inspection may be that of Resume, too.
var words = map[command.Op]string{
	command.Acquire: "acquire", command.Extend: "extend", command.Inspect: "check", command.Repair: "repair", command.Confirm: "confirm",
}

// Began records that a round begins.
func (c *tracedClient) Began(r *vote.Round) {
	q := &r.Request
	c.mu.Lock()
	defer c.mu.Unlock()
	x := &tracedRound{
		name: fmt.Sprint("r", len(c.rounds)+1), op: words[q.Op], token: c.rename(q.Token()), names: r.Names, ttl: q.TTL, began: c.client.clock.Now(),
		from: len(c.executions), answers: map[int]command.Reply{}, executed: map[int]*execution{},
	}
	word, rest := x.op, ""
	switch q.Op {
	case command.Acquire:
		hint := "-"
		if q.Hint() != 0 {
			hint = strconv.FormatInt(q.Hint(), 10)
		}
		rest = fmt.Sprintf(" %d %s %s", x.ttl.Milliseconds(), hint, strings.Join(x.names, " "))
	case command.Extend, command.Repair:
		rest = fmt.Sprint(" ", x.ttl.Milliseconds())
	case command.Confirm:
		_, args := q.AppendCall(nil, false)
		x.number = args[len(args)-1].(int64)
		rest = fmt.Sprint(" ", x.number)
	case command.Inspect:
		if from, ok := c.claims[x.token]; ok {
			word = "resume"
			c.passed = c.passed || from != c.client.id
		}
	}
	c.rounds = append(c.rounds, x)
	c.rounded[r] = x
	c.addLocked(&traceLine{text: fmt.Sprintf("%s %d %s %s%s", word, c.client.id, x.name, x.token, rest)})
}

// Answered records a vote, and finds what was answered: the node's first execution of the like that is not known to be
// another round's. Answers come in the order of the executions.
func (c *tracedClient) Answered(r *vote.Round, node int, rep command.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.rounded[r]
	if x == nil || rep.NotSent || rep.Outcome != command.Granted && rep.Outcome != command.Refused {
		return
	}
	x.answers[node] = rep
	outcome := rep.Outcome.String()
	switch {
	case x.op == "check":
		outcome = c.outcomeOf(rep.KeyStates, x.token)
	case rep.Fence != 0:
		outcome = fmt.Sprint("granted ", rep.Fence)
	}
	for _, e := range c.executions[x.from:] {
		if e.node == node && e.round == nil && x.like(e) && (e.outcome == outcome || x.op == "check" && e.seen == seenIn(rep.KeyStates)) {
			e.outcome, e.round, x.executed[node] = outcome, x, e
			break
		}
	}
	outcome, _, _ = strings.Cut(outcome, " ")
	c.addLocked(&traceLine{text: fmt.Sprintf("answer %s %d %s", x.name, node, outcome)})
}

// outcomeOf returns what an inspection shows of a lock.
func (t *trace) outcomeOf(states []command.KeyState, token string) string {
	left := t.longest
	for _, s := range states {
		if s.Value != token || s.TTL < 0 {
			return "refused"
		}
		left = min(left, s.TTL)
	}
	return fmt.Sprint("granted ", left.Milliseconds())
}

// Decided records which answers made the majority.
func (c *tracedClient) Decided(r *vote.Round, until clock.Instant, fence int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.rounded[r]
	var voters []int
	for n, rep := range x.answers {
		if rep.Outcome == command.Granted && (fence == 0 || rep.Fence == fence || c.confirmedLocked(x.token, n, fence)) {
			voters = append(voters, n)
		}
	}
	if x.op == "check" {
		delete(c.claims, x.token)
		voters = x.longestKept(voters, quorum.Majority(c.nodes))
	}
	slices.Sort(voters)
	var text strings.Builder
	fmt.Fprintf(&text, "decide %s %d %d", x.name, until.Sub(x.began), fence)
	for _, n := range voters {
		fmt.Fprint(&text, " ", n)
	}
	c.addLocked(&traceLine{text: text.String()})
}

func (t *trace) confirmedLocked(token string, node int, fence int64) bool {
	return slices.ContainsFunc(t.rounds, func(x *tracedRound) bool {
		return x.op == "confirm" && x.token == token && x.number == fence && x.answers[node].Outcome == command.Granted
	})
}

// longestKept returns those nodes that keep the lock for the longest time.
func (x *tracedRound) longestKept(nodes []int, most int) []int {
	left := func(n int) time.Duration {
		d := time.Duration(math.MaxInt64)
		for _, s := range x.answers[n].KeyStates {
			if s.Value != x.token {
				return -1
			}
			d = min(d, s.TTL)
		}
		return d
	}
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(left(b), left(a)) })
	return nodes[:min(len(nodes), most)]
}

// Ended records that an attempt or a lock is over.
func (c *tracedClient) Ended(token string, kept bool) {
	token = c.rename(token)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !kept {
		c.addLocked(&traceLine{text: "end " + token})
		return
	}
	c.claims[token] = c.client.id
	c.addLocked(&traceLine{text: fmt.Sprintf("detach %d %s", c.client.id, token)})
}
