//go:build unix

package contenders

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

// taskEnv is the environment variable of the task of a process.
const taskEnv = "REDLOCK_TEST_CONTENDERS"

// line is one line of a process's output to its parent.
type line struct {
	Held   *Hold  `json:",omitempty"`
	Failed string `json:",omitempty"`
}

// Main is the body of a TestMain. In a process that [Start] began it calls contend with the
// process's task; ctx ends when the parent closes the process's standard input. In any other
// process it runs the tests. A goroutine that contend leaves behind makes the process fail.
func Main[T any](m interface{ Run() int }, contend func(ctx context.Context, task T, log *Log)) {
	text := os.Getenv(taskEnv)
	if text == "" {
		os.Exit(redistest.Run(m))
	}
	var task T
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		panic(err)
	}
	left := redistest.NoGoroutines(exitTB{})
	ctx, stop := context.WithCancel(context.Background())
	var parent sync.WaitGroup
	parent.Go(func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // standard input ends when the parent closes it or dies
		stop()
	})
	contend(ctx, task, &Log{out: bufio.NewWriter(os.Stdout)})
	parent.Wait()
	left()
	os.Exit(0)
}

// Log writes one line for each event, without delay, because the parent counts them. Its methods
// are safe for concurrent use.
type Log struct {
	mu  sync.Mutex // guards out
	out *bufio.Writer
}

// Held reports a hold that is over.
func (l *Log) Held(h Hold) { l.write(line{Held: &h}) }

// Failed reports what must not happen, whatever the nodes do. It ignores a nil error.
func (l *Log) Failed(what string, err error) {
	if err != nil {
		l.write(line{Failed: fmt.Sprintf("%s: %v", what, err)})
	}
}

// Judge calls Failed for an error that matches none of the given errors.
func (l *Log) Judge(what string, err error, allowed ...error) {
	for _, f := range allowed {
		if errors.Is(err, f) {
			return
		}
	}
	l.Failed(what, err)
}

// Idle waits for d or until ctx is done.
func Idle(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (l *Log) write(entry line) {
	text, err := json.Marshal(entry)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(append(text, '\n'))
	_ = l.out.Flush()
}

// exitTB replaces the test in a process without one. Its Fatalf ends the process.
type exitTB struct{ testing.TB }

func (exitTB) Helper() {}

func (exitTB) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
