package main

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

func listEntry() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "list [flags] [PREFIX]",
			Short: "list the names that are held, by which owner, and for how long",
			Long:  listAbout,
			Example: "  redlock list --nodes redis://a:6379,redis://b:6379,redis://c:6379 invoice/\n" +
				"  redlock list --json | jq -r '.names[].name'\n" +
				"  redlock list --watch invoice/",
		},
		Define: listFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "a quorum was searched to the end; with --watch, it was ended by Ctrl-C or SIGTERM"),
			cli.Ends(cli.ExitFailed, "--limit or --timeout ended the search: more names may be held"),
			cli.EndsMisused,
			cli.Ends(cli.ExitUnavailable, "no quorum of nodes could be searched; nothing is listed; --watch continues"),
			cli.EndsUnwritten,
			cli.Ends(cli.ExitSignal, "signal n ended the search; nothing is listed"),
		},
	}
}

const listAbout = `It lists the locks of this library whose names begin with PREFIX, or all of them. *, ? and
[ in PREFIX mean themselves. It changes nothing, and shows no token.

The list is no snapshot. Locks are acquired and released while it searches, and it may be
out of date when it is read. A lock that is held during the whole search is listed.

It searches each node's keys (SCAN), which takes a while if there are many, and then asks
all nodes who holds what was found. The user of the nodes needs the right to SCAN
(ACL SETUSER … +scan). FENCE is the largest fence that a quorum of nodes has given out for
the name: the holder's own, if the holder uses fencing. Without the right to read
redlock:fence:* use --no-fence.

A ? marks a name that may be held: too few nodes answered to tell.

With --watch it repeats the search every --interval until it is ended. On a terminal it
overwrites the output. Otherwise it prints when something has changed: the names, their
holders, or the nodes that answer. An extension is no change.

With --json it prints one object, and with --watch one per line:
  at         the time of the search; only with --watch
  complete   false: --limit or --timeout ended the search, and more names may be held
  names      for each name that is held, in order
    name     the lock
    name_base64
             the bytes of the name; only if they are not valid UTF-8
    state    "held", or "unclear": too few nodes answered to tell
    owner    the holder's label, "" if it has none
    id       the ID of the holder's lock, as its logs show it
    left_ms  how long a quorum keeps it unless it is released or extended;
             -1 without an expiry; only when held
    fence    as above; absent if there is none
  nodes      for each node
    node     its name
    error    why it could not be searched; absent if it was
`

// Bounds of --limit and --timeout.
const (
	defaultLimit   = 1000
	maxLimit       = 100_000
	defaultTimeout = 30 * time.Second
	maxTimeout     = 10 * time.Minute
	maxKeyPrefix   = 512 // the library's bound, in bytes
)

// listCommand holds the flags of `list`.
type listCommand struct {
	noFence *bool
	limit   *int
	timeout *time.Duration
	watch   watchFlags
}

func listFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.NodeFlags(f)
	d := &listCommand{watch: newWatchFlags(f)}
	d.noFence = f.Bool("no-fence", false, "do not read the fences")
	d.limit = f.Int("limit", defaultLimit, "end the search after this `number` of names, up to 100000 (default: 1000)")
	d.timeout = cli.DurationFlag(f, "timeout", defaultTimeout, "end the search after this time, up to 10m (default: 30s)")
	return d.run
}

func (d *listCommand) run(ctx context.Context, c *cli.Invocation) int {
	words := c.Words()
	if len(words) > 1 {
		return c.Misused("one PREFIX is enough, %d given", len(words))
	}
	start := strings.Join(words, "")
	keyPrefix := c.Prefix()
	switch {
	case cli.CheckName(start) != nil:
		return c.Misused("%v", cli.CheckName(start))
	case strings.HasPrefix(keyPrefix, command.Reserved) || len(keyPrefix) > maxKeyPrefix:
		return c.Misused("WithKeyPrefix(%q): at most %d bytes, and not %q", keyPrefix, maxKeyPrefix, command.Reserved)
	case strings.HasPrefix(keyPrefix+start, command.Reserved):
		return c.Misused("the keys %q are in the reserved namespace %q", keyPrefix+start, command.Reserved)
	case *d.limit < 1 || *d.limit > maxLimit:
		return c.Misused("--limit must be from 1 to %d", maxLimit)
	case *d.timeout <= 0 || *d.timeout > maxTimeout:
		return c.Misused("--timeout must be more than 0, and at most %v", maxTimeout)
	case d.watch.check() != nil:
		return c.Misused("%v", d.watch.check())
	}
	nodes, err := c.Nodes()
	if err != nil {
		return c.Misused("%v", err)
	}
	group, err := openGroup(nodes)
	if err != nil {
		return c.Misused("%v", err)
	}
	defer group.close()
	if *d.watch.on {
		return runWatch(ctx, c, d.watch, func(ctx context.Context) (view, error) {
			s := newSearch(group, keyPrefix, start, *d.limit, !*d.noFence)
			s.failed = s.run(ctx, *d.timeout)
			return s, nil
		})
	}
	ctx, stop := cli.Listen().Until(ctx)
	defer stop()
	s := newSearch(group, keyPrefix, start, *d.limit, !*d.noFence)
	if err := s.run(ctx, *d.timeout); err != nil {
		c.Fail(err, "%v", err)
		return cli.Refusal(err)
	}
	if c.JSON {
		c.Result = s.object(nil)
	} else {
		s.print(c.Printer())
	}
	if s.cut != nil {
		c.FailSilently(s.cut, s.cut.Error())
		return cli.ExitFailed
	}
	return cli.ExitOK
}

// search finds the names that are held on a quorum of nodes.
type search struct {
	group   *nodeGroup
	prefix  string // of the keys
	pattern string
	limit   int
	fenced  bool

	errs []error // by node: why it was not searched

	mu    sync.Mutex // guards what follows; nothing is called under it
	found map[string]bool
	cut   error // why the search ended early; nil if it did not

	names  []listedName
	failed error // why nothing was found out
}

// listedName is a name that is held, or may be.
type listedName struct {
	name  string
	held  bool // false: too few nodes answered to tell
	owner string
	id    string
	left  time.Duration // negative without an expiry
	fence int64         // 0: none
}

// Why a search ended early.
var (
	errLimit   = cli.CodedError("incomplete", "--limit ended the search")
	errTimeout = cli.CodedError("incomplete", "--timeout ended the search")
)

func newSearch(g *nodeGroup, keyPrefix, start string, limit int, fenced bool) *search {
	return &search{
		group: g, prefix: keyPrefix, pattern: globEscaper.Replace(keyPrefix+start) + "*", limit: limit, fenced: fenced,
		errs: make([]error, len(g.nodes)), found: make(map[string]bool),
	}
}

// globEscaper escapes what SCAN MATCH takes for a pattern.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// run searches the nodes one after the other's page, and then asks them who holds what was found.
func (s *search) run(parent context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(parent, timeout, errTimeout)
	defer cancel()
	if s.scan(ctx); parent.Err() != nil {
		return context.Cause(parent)
	}
	if answered(s.errs) < s.group.need() {
		return s.group.noQuorum(s.errs)
	}
	// The names that were found are asked for although the time may be over.
	err := s.inspect(parent)
	if parent.Err() != nil {
		return context.Cause(parent)
	}
	return err
}

// scan searches all nodes at the same time for keys that hold a token.
func (s *search) scan(ctx context.Context) {
	var wg sync.WaitGroup
	for i, n := range s.group.nodes {
		wg.Go(func() {
			alone := groupOf(n)
			err := examine.Keys(ctx, n, s.pattern, func(keys []string) error { return s.collect(ctx, alone, n, keys) })
			switch {
			case errors.Is(err, errLimit):
				s.end(errLimit)
			case err != nil && errors.Is(context.Cause(ctx), errTimeout):
				s.end(errTimeout)
			default:
				s.errs[i] = err
			}
		})
	}
	wg.Wait()
}

func (s *search) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = why
}

// maxBatch is the number of keys that one query reads. It is small, because a server answers no
// other client meanwhile.
const maxBatch = 100

// collect reads the values of keys on one node, and keeps the keys that hold a token.
func (s *search) collect(ctx context.Context, alone *vote.Group, n command.Voter, keys []string) error {
	size := maxBatch
	if n.Kind().Cluster {
		size = 1 // keys of one query must have one slot
	}
	keys = slices.DeleteFunc(keys, s.skips)
	for part := range slices.Chunk(keys, maxBatch) {
		if err := s.collectPart(ctx, alone, size, part); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) collectPart(ctx context.Context, alone *vote.Group, size int, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, cli.ColdTimeout)
	defer cancel()
	var asked []*broadcast
	for batch := range slices.Chunk(keys, size) {
		asked = append(asked, ask(alone, batch...))
	}
	for i, b := range asked {
		answer := b.answers(ctx)[0]
		if answer.err != nil {
			return answer.err
		}
		for j, state := range answer.states {
			if command.WellFormed(state.Value) && !s.add(keys[i*size+j]) {
				return errLimit
			}
		}
	}
	return nil
}

// skips reports whether a key is no lock of this search, or was found on another node.
func (s *search) skips(key string) bool {
	if strings.HasPrefix(key, command.Reserved) || key == s.prefix {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found[key]
}

// add keeps a key, and reports whether there was room for it.
func (s *search) add(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.found[key] && len(s.found) >= s.limit {
		return false
	}
	s.found[key] = true
	return true
}

// inspect asks the nodes that were searched who holds the keys that were found.
func (s *search) inspect(ctx context.Context) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(s.found)), maxBatch) {
		if err := s.inspectPart(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// inspectPart asks the nodes that have not failed yet. One that fails now is not asked again.
func (s *search) inspectPart(ctx context.Context, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, cli.ColdTimeout)
	defer cancel()
	var nodes []command.Voter
	var indexes []int
	for i, n := range s.group.nodes {
		if s.errs[i] == nil {
			nodes, indexes = append(nodes, n), append(indexes, i)
		}
	}
	group := groupOf(nodes...)
	began := group.Clock.Now()
	var asked []*broadcast
	for _, key := range keys {
		query := []string{key}
		if s.fenced && (!s.group.tagged || command.CanHaveFenceKey(key)) {
			query = append(query, command.FenceKey(key, s.group.tagged))
		}
		asked = append(asked, ask(group, query...))
	}
	for i, b := range asked {
		all := b.answers(ctx)
		for j, a := range all {
			if a.err != nil {
				s.errs[indexes[j]] = a.err
			}
		}
		if answered(s.errs) < s.group.need() {
			return s.group.noQuorum(s.errs)
		}
		if l, ok := s.evaluate(keys[i], all, began); ok {
			s.names = append(s.names, l)
		}
	}
	return nil
}

// evaluate returns the state of a key by the nodes' answers. ok is false if no holder can have a
// quorum.
func (s *search) evaluate(key string, all []keyAnswer, began clock.Instant) (l listedName, ok bool) {
	silent := len(s.group.nodes) - len(all)
	untils := make(map[string][]clock.Instant)
	fences := make(map[string][]int64)
	for _, a := range all {
		if len(a.states) == 0 {
			silent++
			continue
		}
		token := a.states[0].Value
		if !command.WellFormed(token) {
			continue
		}
		untils[token] = append(untils[token], keptUntil(began, a.states[0].TTL))
		if len(a.states) > 1 {
			fence, _ := strconv.ParseInt(a.states[1].Value, 10, 64) // 0 for anything but a number
			fences[token] = append(fences[token], fence)
		}
	}
	l.name = strings.TrimPrefix(key, s.prefix)
	most := 0
	for token, all := range untils {
		if len(all) <= most {
			continue
		}
		most, l.owner, l.id = len(all), command.Owner(token), command.ID(token)
		if until, ok := quorum.Supported(all, s.group.need()); ok {
			l.held, l.left = true, until.Sub(began)
			l.fence, _ = quorum.Supported(fences[token], s.group.need())
			if until == forever {
				l.left = -time.Millisecond
			}
		}
	}
	return l, most > 0 && most+silent >= s.group.need()
}

// forever is when a key without an expiry expires.
const forever = clock.Instant(math.MaxInt64)

func keptUntil(began clock.Instant, ttl time.Duration) clock.Instant {
	if ttl < 0 {
		return forever
	}
	return began.Add(ttl)
}

// namesLimit bounds how many names are offered to a shell.
const namesLimit = 200

// heldNames returns the names with a prefix that are held on a node, in order. It searches for namesTimeout at
// most, and returns none if no node can be reached.
func heldNames(ctx context.Context, nodes cli.NodeList, keyPrefix, start string) (names []string) {
	group, err := openGroup(nodes)
	if err != nil {
		return nil
	}
	defer group.close()
	ctx, cancel := context.WithTimeoutCause(ctx, cli.NamesTimeout, errTimeout)
	defer cancel()
	s := newSearch(group, keyPrefix, start, namesLimit, false)
	s.scan(ctx)
	for _, key := range slices.Sorted(maps.Keys(s.found)) {
		names = append(names, strings.TrimPrefix(key, keyPrefix))
	}
	return names
}
