package fakeredis

import (
	"bufio"
	"bytes"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// Observer is told what happens to a master, in order and at its instant. It is called under the master's
// mutex: it must neither block nor call the master. It is not told of Set and PushList.
type Observer interface {
	// Executed reports a command of a client that has executed or was answered by an error, before the
	// client is answered. reply is an int, a string, a server.Simple, a list of these, or nil.
	Executed(cmd string, args []string, reply any, err error)
	// Deleted reports a key that Del deletes.
	Deleted(key string)
	// DataReplaced reports that the master has this data only. Keys that have expired may be among them.
	DataReplaced(keys map[string]Saved)
	// Restarted reports that the master starts again, with the data that it has.
	Restarted()
	// ClockSet reports that the clock was moved by step, and from now on runs at rate, in billionths. keys are
	// those of database 0: others that have expired do not come back if the clock is set back.
	ClockSet(step time.Duration, rate int64, keys []string)
}

// Observe sets the master's only observer. Nil removes it.
func (m *Master) Observe(o Observer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observer = o
}

// report reports a command; under m.mu. A command without a reply is not reported.
func (m *Master) report(cmd string, args []string, answer []byte) {
	if len(answer) == 0 {
		return
	}
	reply, err := server.ParseReply(bufio.NewReader(bytes.NewReader(answer)))
	m.observer.Executed(cmd, args, reply, err)
}
