// Package show is what the examples share: their servers, their output, and their exit statuses.
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

// maxRun bounds the run of an example.
const maxRun = time.Minute

// Stage has the servers and the output of an example. It is safe for concurrent use.
type Stage struct {
	URLs []string // of the servers

	mu  sync.Mutex // guards the lines of out
	out io.Writer
}

// Run runs an example with the arguments of its command line. The servers are those of --nodes, or
// three inside this process. Run returns the exit status: 0 if play returns nil, 1 if play returns
// an error, 2 for wrong usage.
func Run(name string, play func(ctx context.Context, s *Stage) error, args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(errs)
	nodes := f.String("nodes", "", "the servers' `URLs`, separated by commas (default: three servers inside this process)")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxRun)
	defer cancel()
	s := &Stage{URLs: strings.Split(*nodes, ","), out: out}
	if *nodes == "" {
		urls, stop, err := startServers(3)
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
	_, _ = fmt.Fprintf(s.out, format+"\n", args...) // an error could not be reported
}

// startServers starts n servers inside this process. They suffice for an example, not for real locks.
func startServers(n int) (urls []string, stop func(), err error) {
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
