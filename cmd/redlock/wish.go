package main

import (
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quorumlock/go-redlock/redlock"
)

// wish is the lock that `run` and `acquire` are asked for.
type wish struct {
	name    string
	ttl     time.Duration
	wait    time.Duration
	owner   string
	noFence bool
	guard   time.Duration // maxTTL; 0: none
	nodeList

	nodesGiven nodeFlags
	guardGiven flag.Value
	prefix     *prefixValue

	line *waitLine // what a person sees of the wait
}

const usualTTL = 30 * time.Second

// wishFlags defines what both have in common. The label says who holds the lock: this
// process, or the one that called it.
func wishFlags(f *form, owner, whose string) *wish {
	w := &wish{nodesGiven: nodesFlags(f), guardGiven: guardFlag(f), prefix: prefixFlag(f)}
	f.DurationVar(&w.ttl, "ttl", -1, "how long the lock lives unless it is extended (default: 30s, or --guard's "+
		"maxTTL where that is less)")
	f.DurationVar(&w.wait, "wait", time.Minute, "how long to wait for it; 0 is one attempt (default: 1m)")
	f.StringVar(&w.owner, "owner", owner, "a `label` by which others see who holds it (default: host/"+whose+")")
	f.BoolVar(&w.noFence, "no-fence", false, "do not have the masters number this holder (see below)")
	return w
}

// bound reads the masters and the guard, and checks what the library can't know of. It
// checks the TTL itself.
func (w *wish) bound(c *call) (err error) {
	if w.nodeList, err = c.nodes(w.nodesGiven); err != nil {
		return err
	}
	if w.guard, err = c.guard(w.guardGiven); err != nil {
		return err
	}
	if w.ttl == -1 {
		w.ttl = usualTTL
		if w.guard > 0 {
			w.ttl = min(w.ttl, w.guard)
		}
	}
	if w.wait < 0 {
		return errors.New("--wait can't be negative")
	}
	return notClaim(w.name)
}

// open makes the Locker, and the line that tells of the wait.
func (w *wish) open(c *call) (*redlock.Locker, error) {
	w.line = newWaitLine(c.stderr, w.name)
	opts := append(guarding(w.guard), c.prefix(w.prefix), redlock.WithOwner(w.owner), redlock.WithNodeTimeout(nodeTimeout(w.ttl)))
	if !w.noFence {
		opts = append(opts, redlock.WithFencing())
	}
	return w.nodeList.open(append(opts, w.line.options()...)...)
}

// ownerOf is host/pid, as far as that is a label.
func ownerOf(pid int) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '-'
		}
		return r
	}, host)
	return host[:min(len(host), 48)] + "/" + strconv.Itoa(pid)
}
