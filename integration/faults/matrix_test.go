//go:build unix

package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/contenders"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
)

var (
	sizes = []int{3, 5}
	works = []string{short, beyond, extend}
	sums  = []int{2, 8, 32}
)

// matrix returns all cells of the matrix. If whole is false it returns three cells of each fault,
// in which every two values of the other columns meet.
func matrix(whole bool) []testCase {
	var cases []testCase
	for f, fault := range faults() {
		for s, nodes := range sizes {
			for w, work := range works {
				for c, count := range sums {
					// For each fault there is one square of works and contenders, which has every
					// row and every column once, while the sizes alternate.
					if whole || c == (w+f)%len(sums) && s == (w+f/len(sums))%len(sizes) {
						cases = append(cases, testCase{fault, nodes, work, count})
					}
				}
			}
		}
	}
	return cases
}

func TestEveryFaultIsSurvived(t *testing.T) {
	late.LeaveOut(t, "a late node is as good as down for locks of 400 ms, so no majority is left when another node has the fault")
	root, left := t, redistest.NoGoroutines(t)
	at := make(sites)
	started := time.Now()
	var outcomes []outcome
	for _, c := range chosen(t, os.Getenv("REDLOCK_TEST_FAULTS")) {
		t.Run(c.String(), func(t *testing.T) {
			s := at.of(root, c)
			defer at.leave(t, c)
			o := c.run(t, s)
			outcomes = append(outcomes, o)
			t.Log(o.row()) // even of a run that fails
		})
	}
	left()
	fmt.Print(table(outcomes))
	fmt.Printf("\n%d cells in %v.\n", len(outcomes), time.Since(started).Round(time.Second))
}

// chosen returns the cells that REDLOCK_TEST_FAULTS selects: all; the part; a third of the part, with
// one cell of each fault; or the cell of a number, and at each further call the next one. The number
// wraps around.
func chosen(t *testing.T, name string) []testCase {
	t.Helper()
	if number, ok := strings.CutPrefix(name, "cell:"); ok {
		n, err := strconv.ParseUint(number, 10, 64)
		require.NoError(t, err, "REDLOCK_TEST_FAULTS")
		all := matrix(true)
		i := (n + cellsChosen) % uint64(len(all))
		cellsChosen++
		return all[i : i+1]
	}
	cases, thirds := matrix(name == "all"), []string{"1/3", "2/3", "3/3"}
	third := slices.Index(thirds, name)
	if third < 0 {
		require.Contains(t, []string{"", "part", "all"}, name, "REDLOCK_TEST_FAULTS")
		return cases
	}
	var some []testCase
	for i := third; i < len(cases); i += len(thirds) {
		some = append(some, cases[i])
	}
	return some
}

// cellsChosen counts the cells that were chosen by a number: a test that is repeated gets another one.
var cellsChosen uint64

func TestNumbersGoThroughAllCells(t *testing.T) {
	before := cellsChosen
	defer func() { cellsChosen = before }()
	cellsChosen = 0
	all := matrix(true)
	var met, want []string
	for _, c := range all {
		want = append(want, c.String())
		met = append(met, chosen(t, "cell:5")[0].String())
	}
	assert.Equal(t, want[5], met[0])
	assert.ElementsMatch(t, want, met)
}

func TestTheThirdsAreThePart(t *testing.T) {
	var all []string
	for _, third := range []string{"1/3", "2/3", "3/3"} {
		met := make(map[string]bool)
		for _, c := range chosen(t, third) {
			met[c.fault.name] = true
			all = append(all, c.String())
		}
		assert.Len(t, met, len(faults()), "each fault is in each third")
	}
	var part []string
	for _, c := range matrix(false) {
		part = append(part, c.String())
	}
	assert.ElementsMatch(t, part, all)
}

// table returns the table of docs/results/faults.md.
func table(outcomes []outcome) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| fault | nodes | work | contenders | acquired | losses told | overlaps | fences out of order | writes accepted | refused | lost | longest time without a holder |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, o := range outcomes {
		fmt.Fprintln(&b, o.row())
	}
	return b.String()
}

func (o outcome) row() string {
	return fmt.Sprintf(
		"| %s | %d | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d ms |",
		o.fault.name, o.nodes, o.work, o.contenders, o.acquired, o.lost, o.overlaps, o.disorder, o.accepted, o.refused, o.lostWrites, o.gap.Milliseconds(),
	)
}

// Every two values of two columns meet in the part that is run by default.
func TestEveryTwoValuesMeetInThePart(t *testing.T) {
	met := make(map[string]bool)
	for _, c := range matrix(false) {
		values := []string{c.fault.name, fmt.Sprintf("%d nodes", c.nodes), c.work, fmt.Sprintf("%d contenders", c.contenders)}
		for i, a := range values {
			for _, b := range values[:i] {
				met[a+" and "+b] = true
			}
		}
	}
	for _, c := range matrix(true) {
		values := []string{c.fault.name, fmt.Sprintf("%d nodes", c.nodes), c.work, fmt.Sprintf("%d contenders", c.contenders)}
		for i, a := range values {
			for _, b := range values[:i] {
				assert.True(t, met[a+" and "+b], "%s and %s do not meet", a, b)
			}
		}
	}
}

// The control: a majority forgets its locks again and again, without the guard. Two contenders hold
// the lock, and the oracle detects it.
func TestWithoutTheGuardTheOracleFindsTwoHolders(t *testing.T) {
	late.LeaveOut(t, "a late node is as good as down for locks of 400 ms")
	left := redistest.NoGoroutines(t)
	c := testCase{nodes: 3, work: beyond, contenders: 8}
	s := make(sites).of(t, c)
	r := newRegister(t)
	all := c.start(t, s, r, false)
	all.Until(t, "two contenders hold the lock at once", func([]contenders.Hold) bool {
		return len(contenders.Overlaps(all.Holds())) > 0
	}, func(int) {
		for _, n := range s.patients[:2] {
			n.Do(t, "FLUSHALL")
		}
	})
	all.Stop(t)
	require.NotEmpty(t, contenders.Overlaps(all.Holds()))
	r.close()
	left()
}
