package pool

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
				case <-time.After(time.Duration(rnd.IntN(20)) * time.Millisecond):
				}
				switch rnd.IntN(3) {
				case 0:
					m.Freeze()
				case 1:
					m.SetDelay(time.Duration(rnd.IntN(10)) * time.Millisecond)
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
					c := inspecting(key).on(n)
					patience := time.After(time.Duration(rnd.IntN(30)) * time.Millisecond) // the node timeout
					check := func(r command.Reply) {
						answered.Add(1)
						if r.Outcome != command.Granted || r.KeyStates[0].Value != key {
							t.Errorf("%.40q was answered %v %v %.40q", key, r.Outcome, r.Err, r.KeyStates)
						}
					}
					select {
					case r := <-c.answered:
						check(r)
					case <-patience:
						late.Add(1)
						open.Go(func() { check(<-c.answered) })
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
		require.Equal(t, command.Granted, pinging().outcome(t, n))
		m.Freeze()
		c := acquiring("A", longTTL, "k").on(n)
		time.Sleep(4900 * time.Millisecond)
		require.True(t, c.pending())
		m.Unfreeze()
		began := time.Now()
		require.Equal(t, command.Granted, c.reply(t).Outcome)
		require.Equal(t, command.Granted, releasing("A", "k").outcome(t, n))
		require.Zero(t, time.Since(began))
		time.Sleep(time.Hour)
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// docs/dev/rules.md rule 6.
func TestAllCommandsOfATokenTakeOneConnection(t *testing.T) {
	const connections, tokens = 4, 100
	inBubble(t, func(c *Config) { c.Connections = connections }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		require.Equal(t, connections, n.Stats().Connected)
		require.Equal(t, connections, m.Connections())
		m.ForgetLog()
		var calls []*call
		for range 3 {
			for i := range tokens {
				token, key := fmt.Sprint("token ", i), fmt.Sprint("key ", i)
				calls = append(calls, acquiring(token, longTTL, key), extending(token, 2*longTTL, key), releasing(token, key))
			}
		}
		for _, c := range calls {
			c.on(n)
		}
		for _, c := range calls {
			require.Equal(t, command.Granted, c.reply(t).Outcome)
		}
		by := map[string]map[int64]int{} // token → connection → commands
		all := map[int64]bool{}
		for _, e := range m.Log() {
			if e.Name == "SCRIPT" {
				continue
			}
			token := e.Args[1] // SET key token …
			if e.Name == "EVALSHA" {
				token = e.Args[3] // hash, number, key, token
			}
			if by[token] == nil {
				by[token] = map[int64]int{}
			}
			by[token][e.Client]++
			all[e.Client] = true
		}
		require.Len(t, by, tokens)
		require.Len(t, all, connections, "the tokens are spread over all connections")
		for token, connections := range by {
			require.Len(t, connections, 1, token)
			for _, commands := range connections {
				require.Equal(t, 9, commands, token)
			}
		}
		require.Empty(t, m.Keys())
	})
}

// A lock's next acquire must not overtake the previous release, which may have had no waiting
// caller.
func TestAllCommandsOfANameTakeOneConnection(t *testing.T) {
	const connections, keys = 4, 100
	inBubble(t, func(c *Config) { c.Connections = connections }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.ForgetLog()
		var acquires []*call
		for i := range keys {
			key := fmt.Sprint("key ", i)
			for j := range 5 {
				token := fmt.Sprint("token ", i, j)
				acquires = append(acquires, acquiring(token, longTTL, key, "another").on(n))
				releasing(token, key, "another").on(n)
			}
		}
		for _, c := range acquires {
			c.reply(t)
		}
		synctest.Wait()
		by, all := map[string]map[int64]bool{}, map[int64]bool{}
		for _, e := range m.Log() {
			if e.Name != "EVALSHA" {
				continue // a health check
			}
			key := e.Args[2] // hash, number, key
			if by[key] == nil {
				by[key] = map[int64]bool{}
			}
			by[key][e.Client], all[e.Client] = true, true
		}
		require.Len(t, by, keys)
		require.Len(t, all, connections, "the names are spread over all connections")
		for key, connections := range by {
			require.Len(t, connections, 1, key)
		}
		require.Empty(t, m.Keys())
	})
}

func TestOneConnectionThatEndsLeavesTheOthersAlone(t *testing.T) {
	inBubble(t, func(c *Config) { c.Connections = 3 }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.Clients()[1].Drop()
		time.Sleep(time.Second)
		require.Equal(t, 3, n.Stats().Connected)
		require.Equal(t, int64(4), n.Stats().Dials)
	})
}

// Commands of one token execute in the order of their submission.
func TestCommandsOfAConnectionExecuteInTheOrderOfTheirSubmission(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		echoing(m)
		m.Freeze()
		var calls []*call
		for i := range 3000 {
			calls = append(calls, inspecting(strconv.Itoa(i)).on(n))
		}
		m.Unfreeze()
		for _, c := range calls {
			c.reply(t)
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
