// Package show is what the examples have in common: the masters that they lock by, a place to say what happens, and exit statuses.
package show

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// longest bounds a whole show.
const longest = time.Minute

// Stage is where a show plays. It is safe for concurrent use.
type Stage struct {
	URLs []string // of the masters

	mu  sync.Mutex // guards the lines of out
	out io.Writer
}

// Run plays a show by a command line: the masters are those of --nodes, or three in this process. It returns the exit status: 0 when play
// returned nil, 1 when it did not, 2 for wrong usage.
func Run(name string, play func(ctx context.Context, s *Stage) error, args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(errs)
	nodes := f.String("nodes", "", "the masters' `URLs`, with commas between them (default: three inside of this process)")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	s := &Stage{URLs: strings.Split(*nodes, ","), out: out}
	if *nodes == "" {
		urls, stop, err := ownMasters(3)
		if err != nil {
			_, _ = fmt.Fprintf(errs, "%s: %v\n", name, err)
			return 1
		}
		defer stop()
		s.URLs = urls
	}
	if err := play(ctx, s); err != nil {
		_, _ = fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// Say writes a line.
func (s *Stage) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format+"\n", args...) // there is nobody to tell
}

// ownMasters starts n of them in this process: enough to show it, not to lock by.
func ownMasters(n int) (urls []string, stop func(), err error) {
	var masters []*fakeredis.Master
	stop = func() {
		for _, m := range masters {
			m.Close()
		}
	}
	for i := range n {
		m, err := fakeredis.Start(fmt.Sprintf("master-%d", i+1))
		if err != nil {
			stop()
			return nil, nil, err
		}
		masters, urls = append(masters, m), append(urls, m.URL())
	}
	return urls, stop, nil
}
