package node

import (
	"errors"
	"log/slog"

	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/server"
)

// logLine is an event.
type logLine struct {
	msg string
	err error
}

// maxLines bounds the lines that wait, in case a handler blocks.
const maxLines = 16

// NewLog returns a function that logs an event of the connections of a node, or of one Sentinel of it; with a nil logger it logs nothing.
// It does not block. The events are logged in their order, on a separate goroutine: the handler is the user's, and may block, panic,
// or close the node.
func NewLog(name string, logger *slog.Logger) func(msg string, err error) {
	if logger == nil {
		return func(string, error) {}
	}
	lines := background.NewQueue(maxLines, func(l logLine) { l.write(name, logger) })
	return func(msg string, err error) {
		_ = lines.Add(logLine{msg, err}) // or the line is dropped, because waiting for the handler would stop the node
	}
}

func (l logLine) write(name string, logger *slog.Logger) {
	defer func() { _ = recover() }() // a panic of the user's handler cannot be reported
	if l.err != nil && !errors.Is(l.err, server.ErrClosed) {
		logger.Warn("redlock node: "+l.msg, "node", name, "error", l.err)
		return
	}
	logger.Info("redlock node: "+l.msg, "node", name)
}
