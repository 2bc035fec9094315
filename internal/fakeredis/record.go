package fakeredis

import (
	"maps"
	"slices"
)

// Entry is a command of a client that the master has executed or answered otherwise. Commands of
// scripts are not recorded.
type Entry struct {
	Client int64
	Name   string // in capitals
	Args   []string
}

// logged is how many entries are kept at least. A demo may run for days.
const logged = 1 << 14

type record struct {
	counts map[string]int
	log    []Entry
}

func (r *record) add(client int64, name string, args []string) {
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[name]++
	if len(r.log) >= 2*logged {
		r.log = slices.Clone(r.log[logged:])
	}
	r.log = append(r.log, Entry{Client: client, Name: name, Args: args})
}

// Commands counts the commands by name, over all runs of the master.
func (m *Master) Commands() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.record.counts)
}

// Log returns the commands in the order of their execution: at least the last 16,384.
func (m *Master) Log() []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.record.log)
}

// ForgetLog clears the counts and the log.
func (m *Master) ForgetLog() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record = record{}
}
