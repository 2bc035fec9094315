package command

import (
	"sync/atomic"
	"time"
)

// boxes holds numbers that programs use repeatedly: TTLs and their bounds. Each is an int64.
var boxes [32]atomic.Value

// boxed returns any(n), in most cases without an allocation.
func boxed(n int64) any {
	slot := &boxes[(uint64(n)*0x9e3779b97f4a7c15)>>59] //nolint:gosec // a hash
	b := slot.Load()
	if b != n {
		b = n
		slot.Store(b)
	}
	return b
}

// milliseconds returns d as a number of milliseconds, the form that Redis takes.
func milliseconds(d time.Duration) any { return boxed(int64(d / time.Millisecond)) }

func microseconds(d time.Duration) any { return boxed(int64(d / time.Microsecond)) }

// small returns any(n) for a small number, which needs no allocation.
func small(n int) any { return int64(n) }
