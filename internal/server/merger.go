package server

import (
	"strings"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// merger sets commands of a batch aside that can share one call. Most of what a short script costs a server is to begin it. So a
// batch's releases of one name each are sent as one call, behind the batch's other commands, and so are its acquires of one name
// each that need a script. Each is answered as if it was sent by itself. See ADR 17 and 18. The writer uses it. The reader calls
// failed.
type merger struct {
	count *Counters
	kinds [command.MergeKinds]mergeKind
}

// mergeKind is the commands of one kind that were set aside, and their keys.
type mergeKind struct {
	off  atomic.Bool // each is sent by itself
	text atomic.Bool // the server does not know the script: the next call sends its text

	aside []*command.Command
	keys  map[string]struct{}
}

// newMerger returns the merger of a connection.
func newMerger(on bool, count *Counters) *merger {
	m := &merger{count: count}
	for kind := range m.kinds {
		k := &m.kinds[kind]
		k.off.Store(!on || command.MergeKind(kind) == command.Alone) //nolint:gosec // one of three
		k.keys = make(map[string]struct{})
	}
	return m
}

// before puts commands that were set aside into the batch if one of them is for a key of c. A command may be sent later than it was
// queued, but never behind a later command for its key.
func (m *merger) before(c *command.Command, to *writer) {
	for kind := range m.kinds {
		for _, key := range c.Keys {
			if _, ok := m.kinds[kind].keys[key]; ok {
				m.add(&m.kinds[kind], to)
				break
			}
		}
	}
}

// setAside sets a command aside if it can be merged with others of this batch, and reports whether it did. before must come before
// it.
func (m *merger) setAside(c *command.Command) bool {
	k := &m.kinds[c.MergeKind()]
	if k.off.Load() {
		return false
	}
	k.aside = append(k.aside, c)
	k.keys[c.Keys[0]] = struct{}{}
	return true
}

// rest puts all commands that were set aside into the batch. Acquires come first, because their callers wait.
func (m *merger) rest(to *writer) {
	m.add(&m.kinds[command.MergedAcquire], to)
	m.add(&m.kinds[command.MergedRelease], to)
}

// add puts the commands of one kind that were set aside into the batch.
func (m *merger) add(k *mergeKind, to *writer) {
	for rest := k.aside; len(rest) > 0; {
		n := min(len(rest), command.MaxMerged)
		if n > 1 {
			m.count.Merged.Add(int64(n))
			to.addMerged(rest[:n], k.text.Swap(false))
		} else {
			to.add(rest[0])
		}
		rest = rest[n:]
	}
	clear(k.keys)
	clear(k.aside) // it must not keep the commands, and with them locks, alive
	k.aside = k.aside[:0]
}

// failed decides how later commands of a kind are sent, after an error of a merged call. After an error of the server's state they are
// merged as before. After any other error, such as a missing right or CROSSSLOT, none is.
func (m *merger) failed(kind command.MergeKind, err error) {
	k := &m.kinds[kind]
	switch {
	case strings.HasPrefix(err.Error(), command.NoMerging):
		k.off.Store(true)
	case resp.Code(err) == "NOSCRIPT":
		k.text.Store(true)
	case reply.Denied(err) || !resp.Unexecuted(err) || resp.Code(err) == "CROSSSLOT":
		k.off.Store(true)
	}
}
