package pool

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// echoing answers every inspect with its key in place of the value, without a script. So a reply
// shows which command it belongs to.
func echoing(m *fakeredis.Master) {
	m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
		if cmd != "EVALSHA" {
			return "", false
		}
		return "*3\r\n+string\r\n" + bulk(args[2]) + ":1000\r\n", true
	})
}

// docs/dev/hazards.md H72: callers stop waiting, and their replies are still in transit.
func TestEveryReplyBelongsToItsCommandWhateverTheTimeouts(t *testing.T) {
	const callers, each = 50, 200
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		echoing(m)
		m.SetDelay(time.Millisecond) // or no time passes, and nothing is late
		var answered, late atomic.Int64
		stop := make(chan struct{})
		var faults, g sync.WaitGroup
		faults.Go(func() {
			rnd := rand.New(rand.NewPCG(1, 1))
			for {
				select {
				case <-stop:
					m.Unfreeze()
					return
				case <-time.After(time.Duration(1+rnd.IntN(20)) * time.Millisecond):
				}
				switch rnd.IntN(3) {
				case 0:
					m.Freeze()
				case 1:
					m.SetDelay(time.Duration(1+rnd.IntN(10)) * time.Millisecond)
					m.Unfreeze()
				default:
					m.Unfreeze()
				}
			}
		})
		for i := range callers {
			g.Go(func() {
				rnd := rand.New(rand.NewPCG(2, uint64(i)))
				var open sync.WaitGroup
				for j := range each {
					size := []int{0, 10, 1000, 5000}[rnd.IntN(4)]
					key := fmt.Sprintf("%d/%d/%s", i, j, strings.Repeat("x", rnd.IntN(size+1)))
					c := inspecting(key).On(n)
					// The node timeout. It is not 0: https://go.dev/issue/78156.
					patience := time.After(time.Duration(1+rnd.IntN(30)) * time.Millisecond)
					check := func(r command.Reply) {
						answered.Add(1)
						if r.Outcome != command.Granted || r.KeyStates[0].Value != key {
							t.Errorf("%.40q was answered %v %v %.40q", key, r.Outcome, r.Err, r.KeyStates)
						}
					}
					select {
					case r := <-c.Answers:
						check(r)
					case <-patience:
						late.Add(1)
						open.Go(func() { check(<-c.Answers) })
					}
				}
				open.Wait()
			})
		}
		g.Wait()
		close(stop)
		faults.Wait()
		require.Equal(t, int64(callers*each), answered.Load())
		require.Positive(t, late.Load())
		require.Equal(t, int64(1), n.Stats().Dials, "no timeout of a caller's ended the connection")
	})
}

func TestALateReplyIsMatchedWhenTheNodeThawsAndTheConnectionLivesOn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		c := acquiring("A", longTTL, "k").On(n)
		time.Sleep(4900 * time.Millisecond)
		require.True(t, c.Pending())
		m.Unfreeze()
		began := time.Now()
		require.Equal(t, command.Granted, c.Reply(t).Outcome)
		require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n))
		require.Zero(t, time.Since(began))
		time.Sleep(time.Hour)
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// Commands of one token execute in the order of their submission.
func TestCommandsOfAConnectionExecuteInTheOrderOfTheirSubmission(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		echoing(m)
		m.Freeze()
		var calls []*call
		for i := range 3000 {
			calls = append(calls, inspecting(strconv.Itoa(i)).On(n))
		}
		m.Unfreeze()
		for _, c := range calls {
			c.Reply(t)
		}
		i := 0
		for _, e := range m.Log() {
			if e.Name == "EVALSHA" {
				require.Equal(t, strconv.Itoa(i), e.Args[2])
				i++
			}
		}
		require.Equal(t, 3000, i)
	})
}
