package node

import (
	"errors"
	"log/slog"

	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/server"
)

// eventLog logs the events of a node's connections, in their order, on a separate goroutine: the handler is the user's, and may block,
// panic, or close the node.
type eventLog struct {
	name   string
	logger *slog.Logger // nil: nothing is logged
	lines  *background.Queue[logLine]
}

// logLine is an event.
type logLine struct {
	msg string
	err error
}

// maxLines bounds the lines that wait, in case a handler blocks.
const maxLines = 16

// NewLog returns a function that logs an event of the connections of a node, or of one Sentinel of it. It does not block.
func NewLog(name string, logger *slog.Logger) func(msg string, err error) {
	l := &eventLog{name: name, logger: logger}
	l.lines = background.NewQueue(maxLines, l.write)
	return l.log
}

func (l *eventLog) log(msg string, err error) {
	if l.logger != nil {
		_ = l.lines.Add(logLine{msg, err}) // or the line is dropped, because waiting for the handler would stop the node
	}
}

func (l *eventLog) write(line logLine) {
	defer func() { _ = recover() }() // a panic of the user's handler cannot be reported
	if line.err != nil && !errors.Is(line.err, server.ErrClosed) {
		l.logger.Warn("redlock node: "+line.msg, "node", l.name, "error", line.err)
		return
	}
	l.logger.Info("redlock node: "+line.msg, "node", l.name)
}
