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

// toldEnv is where a process finds what it is told.
const toldEnv = "REDLOCK_TEST_CONTENDERS"

// line is what a process tells its parent.
type line struct {
	Held   *Hold  `json:",omitempty"`
	Failed string `json:",omitempty"`
}

// Main is the body of a TestMain. Where [Start] began this process it calls contend with what it is told, until its parent has heard
// enough and ctx ends; elsewhere it runs the tests. A goroutine that contend leaves makes the process fail.
func Main[T any](m *testing.M, contend func(ctx context.Context, told T, log *Log)) {
	text := os.Getenv(toldEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var told T
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		panic(err)
	}
	left := redistest.NoGoroutines(exitTB{})
	ctx, stop := context.WithCancel(context.Background())
	var parent sync.WaitGroup
	parent.Go(func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the parent closes it, or dies
		stop()
	})
	contend(ctx, told, &Log{out: bufio.NewWriter(os.Stdout)})
	parent.Wait()
	left()
	os.Exit(0)
}

// Log writes what happened, a line each, at once: the parent counts them. Its methods may be called concurrently.
type Log struct {
	mu  sync.Mutex // guards out
	out *bufio.Writer
}

// Held tells of a hold that is over.
func (l *Log) Held(h Hold) { l.write(line{Held: &h}) }

// Failed tells what may not happen to anybody, whatever the nodes do. A nil error is none.
func (l *Log) Failed(what string, err error) {
	if err != nil {
		l.write(line{Failed: fmt.Sprintf("%s: %v", what, err)})
	}
}

// Judge is Failed for an error that matches none of those that are fine here.
func (l *Log) Judge(what string, err error, fine ...error) {
	for _, f := range fine {
		if errors.Is(err, f) {
			return
		}
	}
	l.Failed(what, err)
}

// Idle waits for d, or until ctx is done.
func Idle(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (l *Log) write(told line) {
	text, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(append(text, '\n'))
	_ = l.out.Flush()
}

// exitTB is what a test's helper may use where there is no test: it ends the process.
type exitTB struct{ testing.TB }

func (exitTB) Helper() {}

func (exitTB) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
