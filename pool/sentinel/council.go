package sentinel

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// council decides which server is the master of a node, by the last answer of each Sentinel (docs/dev/rules.md
// rule 29). It is told what they answer, and the time. Its owner guards it, and publishes its choice.
type council struct {
	node     string // its name, for texts
	of       *Config
	answers  []answer // one of each Sentinel. A change replaces the list, because the texts of earlier choices need the old one
	choice   *choice  // is replaced at every change
	switches int64    // how often another master was named
}

// answer is the last answer of one Sentinel.
type answer struct {
	sentinel string        // its address
	master   string        // the master that it named; empty if it knows none, or has not answered yet
	asked    clock.Instant // the instant before the query; its age counts from here
	err      error         // why it could not be queried since
	answered bool          // it has answered, or failed
	peers    int           // the number of other Sentinels that it knew
}

// choice is what a council chose. It never changes, so goroutines need no mutex to ask whether a server may vote.
type choice struct {
	master string        // the last one that a majority named
	until  clock.Instant // the instant until which that counts; 0 if no majority named one in time
	why    func() error  // why there is no master; the text is built at the first call
}

// newCouncil returns the council of a node whose Sentinels have not answered yet.
func newCouncil(node string, of *Config) *council {
	co := &council{node: node, of: of}
	for _, a := range of.Addresses {
		co.answers = append(co.answers, answer{sentinel: a})
	}
	co.choose("", 0)
	return co
}

// answered is told the answer of a Sentinel. It returns the former master if another one is named now.
func (co *council) answered(index int, a answer, now clock.Instant) (from string) {
	// The newest answer of a Sentinel replaces the one before, so each Sentinel counts once.
	co.replace(index, a)
	master, until := co.named()
	// The former master is remembered, but it does not count. Its connections stay: if the same master is named
	// again they can be used.
	if master == "" || !now.Before(until) {
		co.choose(co.choice.master, 0)
		return ""
	}
	from = co.choice.master
	co.choose(master, until)
	// The first master that is named is no switch.
	if from == "" || from == master {
		return ""
	}
	co.switches++
	return from
}

// failed is told that a Sentinel could not be queried. What it named stays, until that is too old: an unreachable
// Sentinel has not withdrawn it.
func (co *council) failed(index int, err error) {
	a := co.answers[index]
	// It counts as answered, because waiting for it may take forever.
	a.err, a.answered = err, true
	co.replace(index, a)
	// The master is the same, and the text is another one.
	co.choose(co.choice.master, co.choice.until)
}

func (co *council) replace(index int, a answer) {
	co.answers = slices.Clone(co.answers)
	co.answers[index] = a
}

func (co *council) choose(master string, until clock.Instant) {
	node, of, answers := co.node, co.of, co.answers // of now: co changes
	why := sync.OnceValue(func() error {
		return fmt.Errorf("pool: %w: %s", command.ErrUnfit, explainNoMaster(node, of, answers))
	})
	co.choice = &choice{master, until, why}
}

// named returns the master that a majority of the Sentinels name, and the instant until which that counts. The
// master is empty if there is none.
func (co *council) named() (master string, until clock.Instant) {
	need, asked := co.of.majority(), make(map[string][]clock.Instant)
	for _, a := range co.answers {
		if a.master != "" {
			asked[a.master] = append(asked[a.master], a.asked)
		}
	}
	for address, when := range asked {
		if len(when) >= need { // of one address at most, because need is a majority
			// That counts as long as need answers are fresh, which ends with the oldest of the need latest ones.
			slices.Sort(when)
			return address, when[len(when)-need].Add(co.of.maxAge())
		}
	}
	return "", 0
}

// mayStillDecide reports whether a majority of the Sentinels may come to name one master, once those have answered
// that have not answered yet.
func (co *council) mayStillDecide() bool {
	silent, most, count := 0, 0, make(map[string]int)
	for _, a := range co.answers {
		// What a Sentinel named before it failed does not count here, though it counts in named while it is
		// fresh. At worst a dial fails early, and the pipeline dials again.
		if !a.answered {
			silent++
		} else if a.err == nil && a.master != "" {
			count[a.master]++
			// The master that most Sentinels name needs the fewest further answers. If it cannot reach a
			// majority, no other master can.
			most = max(most, count[a.master])
		}
	}
	return silent > 0 && most+silent >= co.of.majority()
}

// naming returns the addresses of the Sentinels whose last answer was this master.
func (co *council) naming(master string) (all []string) {
	for _, a := range co.answers {
		if a.master == master {
			all = append(all, a.sentinel)
		}
	}
	return all
}

// agree returns how many Sentinels have named the present master so lately that it counts.
func (co *council) agree(now clock.Instant) (n int) {
	for _, a := range co.answers {
		if a.master != "" && a.master == co.choice.master && now.Before(a.asked.Add(co.of.maxAge())) {
			n++
		}
	}
	return n
}

// counts reports whether a majority has named the master in time. It is asked at each use, because no event marks the
// instant at which the answers become too old.
func (ch *choice) counts(now clock.Instant) bool { return ch.until != 0 && now.Before(ch.until) }

// MayVote returns why the server at address is sent no command, and why its answer is not a vote: no majority has
// named it in time. WithUnsafeNodes makes no exception from this.
func (ch *choice) MayVote(address string, now clock.Instant) error {
	switch {
	case !ch.counts(now):
		return ch.why()
	case address != ch.master:
		return errSwitched
	}
	return nil
}

var errSwitched = errors.New("pool: Sentinels name another master")

// explainNoMaster returns why there is no master.
func explainNoMaster(node string, of *Config, answers []answer) string {
	var each []string
	for _, a := range answers {
		each = append(each, a.String())
	}
	return fmt.Sprintf("%s follows %d Sentinels, of which %d must name one master as %s within %v: %s",
		node, len(answers), of.majority(), of.Master, of.MaxAge, oneline.List(each, "; "))
}

// String describes the answer.
func (a answer) String() string {
	switch {
	// The error comes first: failed keeps the earlier answer, and the text must not show that one as the latest.
	case a.err != nil:
		return fmt.Sprintf("%s cannot be queried (%v)", a.sentinel, a.err)
	case !a.answered:
		return a.sentinel + " has not answered yet"
	case a.master == "":
		return a.sentinel + " does not know the master"
	}
	return a.sentinel + " named " + a.master
}
