package sim

import (
	"strings"
	"testing/synctest"
	"time"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// forgottenGrant is the scenario of docs/dev/hazards.md H115, which needs more coincidences than a seed
// produces. A holds on n1 and n2. n3 grants to B and then forgets the grant. B's commands to the
// other nodes are still in flight when A's key there expires. Meanwhile n3 may have accepted a
// repair and extended A's key. Then A holds by n2 and n3, and B by n1 and the earlier grant of n3.
// B must get the lock in any case, or the scenario shows nothing.
func forgottenGrant(w *world) {
	a, b := w.clients[0], w.clients[1]
	n1, n3 := w.masters[0], w.masters[2]
	for _, c := range w.clients { // the first quarantine
		k, err := c.locker.Acquire(background, "warm-up", time.Second)
		if err != nil {
			panic(err)
		}
		_ = k.Release(background)
		synctest.Wait()
	}
	n3.Deny("EVALSHA") // A has n1 and n2
	k, err := a.locker.TryAcquire(background, "a", time.Second)
	if err != nil {
		panic(err)
	}
	defer a.holding(k)()
	synctest.Wait() // two grants suffice, and n3 may not have refused yet
	n3.Deny()
	time.Sleep(700 * time.Millisecond)

	var arrives [2]chan struct{}
	for i, m := range w.masters[:2] { // also n2: a tie would end the attempt
		arrives[i] = make(chan struct{})
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if op(cmd, args) == "acquire" && strings.HasPrefix(tokenIn(args), "p1:") {
				<-arrives[i]
			}
			return "", false
		})
	}
	var lost error
	w.later(0, func() {
		k, err := b.locker.TryAcquire(background, "a", 3*time.Second)
		if lost = err; err == nil {
			end := b.holding(k)
			<-k.Context().Done()
			end()
		}
	})
	synctest.Wait()
	n3.FlushAll()
	_ = k.Extend(background, 50*time.Millisecond) // by n1 and n2; it lengthens nothing, and finds n3 empty
	synctest.Wait()
	n1.FailWith("EVALSHA", "OOM command not allowed when used memory > 'maxmemory'.")
	_ = k.Extend(background, 3*time.Second) // needs n3
	synctest.Wait()                         // n1 may still have its command to execute
	n1.FailWith("EVALSHA", "")
	time.Sleep(310 * time.Millisecond) // A's key on n1 has expired
	close(arrives[0])
	synctest.Wait() // n1 grants before n2 refuses, which would be a tie
	close(arrives[1])
	w.awaitBackground()
	if lost != nil {
		panic(lost)
	}
}

// repairing lets a node accept repairs in quarantine (H115), and count what it received from then
// on. Without the latter docs/dev/rules.md rule 8 still prevents the error.
var repairing = &faultyClient{hook: func(w *world, m *fakeredis.Master, cmd string, args []string) (string, bool) {
	switch token := tokenIn(args); op(cmd, args) {
	case "repair":
		m.Set(args[2], token, w.plan.ttl)
		w.traceExecuted(m, cmd, args, 1)
		return ":1", true
	case "extend":
		if v, _ := m.Get(args[2]); v == token {
			m.Set(args[2], token, 2*w.plan.ttl)
			w.traceExecuted(m, cmd, args, 1)
			return ":1", true
		}
	}
	return "", false
}}

// tokenIn returns the token among the arguments of a command.
func tokenIn(args []string) string {
	for _, a := range args {
		if tokens.MatchString(a) {
			return a
		}
	}
	return ""
}
