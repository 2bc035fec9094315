package list

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

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/query"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// search finds the names that are held on a quorum of nodes.
type search struct {
	group   *query.Group
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

func newSearch(g *query.Group, keyPrefix, start string, limit int, fenced bool) *search {
	return &search{
		group: g, prefix: keyPrefix, pattern: globEscaper.Replace(keyPrefix+start) + "*", limit: limit, fenced: fenced,
		errs: make([]error, len(g.Nodes)), found: make(map[string]bool),
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
	if err := s.group.Quorum(s.errs); err != nil {
		return err
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
	for i, n := range s.group.Nodes {
		wg.Go(func() {
			alone := query.VoteGroup(n)
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
	var asked []*query.Broadcast
	for batch := range slices.Chunk(keys, size) {
		asked = append(asked, query.Ask(alone, batch...))
	}
	for i, b := range asked {
		answer := b.Answers(ctx)[0]
		if answer.Err != nil {
			return answer.Err
		}
		for j, state := range answer.States {
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
	for i, n := range s.group.Nodes {
		if s.errs[i] == nil {
			nodes, indexes = append(nodes, n), append(indexes, i)
		}
	}
	group := query.VoteGroup(nodes...)
	began := group.Clock.Now()
	var asked []*query.Broadcast
	for _, key := range keys {
		wanted := []string{key}
		if s.fenced && (!s.group.Tagged || command.CanHaveFenceKey(key)) {
			wanted = append(wanted, command.FenceKey(key, s.group.Tagged))
		}
		asked = append(asked, query.Ask(group, wanted...))
	}
	for i, b := range asked {
		all := b.Answers(ctx)
		for j, a := range all {
			if a.Err != nil {
				s.errs[indexes[j]] = a.Err
			}
		}
		if err := s.group.Quorum(s.errs); err != nil {
			return err
		}
		if l, ok := s.evaluate(keys[i], all, began); ok {
			s.names = append(s.names, l)
		}
	}
	return nil
}

// evaluate returns the state of a key by the nodes' answers. ok is false if no holder can have a
// quorum.
func (s *search) evaluate(key string, all []query.Answer, began clock.Instant) (l listedName, ok bool) {
	silent := len(s.group.Nodes) - len(all)
	untils := make(map[string][]clock.Instant)
	fences := make(map[string][]int64)
	for _, a := range all {
		if len(a.States) == 0 {
			silent++
			continue
		}
		token := a.States[0].Value
		if !command.WellFormed(token) {
			continue
		}
		untils[token] = append(untils[token], keptUntil(began, a.States[0].TTL))
		if len(a.States) > 1 {
			fence, _ := strconv.ParseInt(a.States[1].Value, 10, 64) // 0 for anything but a number
			fences[token] = append(fences[token], fence)
		}
	}
	l.name = strings.TrimPrefix(key, s.prefix)
	most := 0
	// In order: of two tokens on equally many nodes the same one is shown each time, or --watch would see a change.
	for _, token := range slices.Sorted(maps.Keys(untils)) {
		all := untils[token]
		if len(all) <= most {
			continue
		}
		most, l.owner, l.id = len(all), command.Owner(token), command.ID(token)
		if until, ok := quorum.Supported(all, s.group.Need()); ok {
			l.held, l.left = true, until.Sub(began)
			l.fence, _ = quorum.Supported(fences[token], s.group.Need())
			if until == forever {
				l.left = -time.Millisecond
			}
		}
	}
	return l, most > 0 && most+silent >= s.group.Need()
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

// HeldNames returns the names with a prefix that are held on a node, in order. It searches for cli.NamesTimeout at
// most, and returns none if no node can be reached.
func HeldNames(ctx context.Context, nodes cli.NodeList, keyPrefix, start string) (names []string) {
	group, err := query.Open(nodes)
	if err != nil {
		return nil
	}
	defer group.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, cli.NamesTimeout, errTimeout)
	defer cancel()
	s := newSearch(group, keyPrefix, start, namesLimit, false)
	s.scan(ctx)
	for _, key := range slices.Sorted(maps.Keys(s.found)) {
		names = append(names, strings.TrimPrefix(key, keyPrefix))
	}
	return names
}
