package nodetest

import (
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// GuardTTL is how long a quarantine lasts in tests.
const GuardTTL = 20 * time.Second

// GuardSettings are those of a guarded Locker over three nodes.
func GuardSettings() *guard.Settings { return guard.New(GuardTTL, []string{"n1", "n2", "n3"}) }

// Guarded gives the node's Locker the guard, and returns its settings.
func Guarded(n Node) *guard.Settings {
	if Member(n).Guard == nil {
		m := *Member(n)
		m.Guard = GuardSettings()
		m.Guard.MaxAge[n.Name()] = command.FromPool(n).Kind().MaxAge
		Join(n, m)
	}
	return Member(n).Guard
}

// Under makes a guarded command.
func Under(token string, fill func(r *command.Request, t *command.LockArgs), keys ...string) *Call {
	t := Terms(token, keys)
	t.UnderGuard = true
	c := NewCall(func(r *command.Request) { fill(r, t) })
	return c
}

// AcquiringUnder returns a guarded acquire.
func AcquiringUnder(token, key string) *Call {
	return Under(token, func(r *command.Request, t *command.LockArgs) { command.NewAcquire(r, t, time.Second, GuardTTL) }, key)
}

// ExtendingUnder returns a guarded extend.
func ExtendingUnder(token, key string) *Call {
	return Under(token, func(r *command.Request, t *command.LockArgs) { command.NewExtend(r, t, time.Second, GuardTTL, 0) }, key)
}

// InspectingUnder returns a guarded inspect.
func InspectingUnder(key string) *Call {
	return Under("", func(r *command.Request, t *command.LockArgs) { command.NewInspect(r, t) }, key)
}

// PingingUnder returns a guarded ping.
func PingingUnder() *Call { return NewCall(command.NewGuardedPing) }
