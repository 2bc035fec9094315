// Package record has a mutex that records which mutexes are locked while it is held. It is for
// command lockorder.
package record

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Class is a kind of mutex: the field of a struct.
type Class interface{ Name() string }

// Mutex is a sync.Mutex of a class.
type Mutex[C Class] struct{ mu sync.Mutex }

// Lock locks m, and records the mutexes that the goroutine holds.
func (m *Mutex[C]) Lock() {
	m.mu.Lock()
	m.locked()
}

// TryLock locks m if it is free. An attempt cannot block, so it records no order.
func (m *Mutex[C]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	push(name[C](), false)
	return true
}

// Unlock unlocks m.
func (m *Mutex[C]) Unlock() {
	pop(name[C]())
	m.mu.Unlock()
}

func (m *Mutex[C]) locked() { push(name[C](), true) }

func name[C Class]() string {
	var c C
	return c.Name()
}

var state = struct {
	sync.Mutex
	locked int                 // how often mutexes were locked
	held   map[string][]string // by goroutine
	seen   map[string]bool
}{held: map[string][]string{}, seen: map[string]bool{}}

// Locked returns how often mutexes were locked.
func Locked() int {
	state.Lock()
	defer state.Unlock()
	return state.locked
}

// push records that the goroutine holds a mutex, and the order if it might have waited for it.
func push(class string, waited bool) {
	id := goroutine()
	state.Lock()
	defer state.Unlock()
	state.locked++
	for _, h := range state.held[id] {
		if order := h + " " + class; waited && !state.seen[order] {
			state.seen[order] = true
			write(order + "\t" + callers())
		}
	}
	state.held[id] = append(state.held[id], class)
}

// pop records that a mutex was unlocked, as a rule by the goroutine that had locked it.
func pop(class string) {
	id := goroutine()
	state.Lock()
	defer state.Unlock()
	held := state.held[id]
	for i, c := range slices.Backward(held) {
		if c != class {
			continue
		}
		if held = slices.Delete(held, i, i+1); len(held) == 0 {
			delete(state.held, id)
			return
		}
		state.held[id] = held
		return
	}
}

// callers returns the functions that are locking a mutex, the innermost first.
func callers() string {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(5, pcs[:])])
	var names []string
	for {
		f, more := frames.Next()
		names = append(names, f.Function[strings.LastIndex(f.Function, "/")+1:])
		if !more {
			return strings.Join(names, " ← ")
		}
	}
}

// write appends a line to the file of the environment variable LOCK_ORDER. Several test binaries may
// write to it.
func write(order string) {
	path := os.Getenv("LOCK_ORDER")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(order + "\n"); err != nil {
		panic(err)
	}
}

// goroutine returns the number of the present goroutine, as a stack trace shows it.
func goroutine() string {
	var b [64]byte
	fields := bytes.Fields(b[:runtime.Stack(b[:], false)])
	return string(fields[1])
}
