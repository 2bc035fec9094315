package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/quorumlock/go-redlock/redlock"
)

const doctorSynopsis = "[--json] [--embedded] [--guard maxTTL [--admit]]"

const doctorText = `It asks every master what it is and whether it is fit to hold locks: a master, and no
replica, Sentinel or member of a Cluster; another server than the others; one that
evicts no keys; with all rights that are needed. On each it tries the commands that
a lock needs, in ways that change nothing. Behind the name stand
  ROLE      master, replica or sentinel
  REDIS     its version
  UP        for how long it has been running
  CLOCK     by how much its clock is ahead of this machine's
  ANSWER    how long one question took
  KEEPS     what it keeps through a restart: "fsync always" keeps every lock
  GUARD     with --guard, or where there is one: "ok", for how long it is quarantined
            still, "none" (no marker yet), "outdated" (started since), "foreign" (of
            another list of masters or maxTTL), or "unreadable"
and below the table what was found, with the cure. An error keeps a master from
voting; a warning may go wrong; a note is worth knowing.

With --admit it takes new masters in at once, which under the guard would have to wait
for maxTTL first: on your word that no client of them is running, or was within the
last maxTTL. It refuses unless every one answers, is fit and has no marker of the guard
yet, and as long as a key with a TTL is there, which may be a lock. It never ends a
quarantine. It looks through all keys, which takes a while where there are many.

With --json it prints one object:
  ok               no errors were found
  nodes            for each master
    node, address  its name, and where it is
    answered       false: it said nothing, and of the following only findings is there
    version, run_id, uptime_s, role, replicas, persistence, eviction, max_memory
    clock_offset_us, round_trip_us
    missing_rights as ACL SETUSER takes them
    guard          as in the table, or "quarantined", with quarantine_ms
    findings       a grade (error, warning, note), a code and a text each
  clock_spread_us  by how much the masters' clocks differ at the most
  findings         of all together

Exit status: 0, or 1 when an error was found or a master was not admitted; 64 for
wrong usage.

Example:
  redlock doctor --nodes redis://a:6379,redis://b:6379,redis://c:6379
`

// doctor is the subcommand.
func doctor(ctx context.Context, c *call) int {
	f := newForm(c, doctorText)
	given := nodesFlag(f.FlagSet)
	asJSON := f.Bool("json", false, "print an object for programs (see below)")
	inside := f.Bool("embedded", false, "look at three masters inside of this process, to see what it says")
	guard := guardFlag(f.FlagSet)
	admit := f.Bool("admit", false, "take new masters in at once (see below)")
	words, behind, _, exit, done := f.read()
	switch {
	case done:
		return exit
	case len(words)+len(behind) > 0:
		return c.misused("it takes no NAME: it looks at the masters")
	case *admit && *guard == 0:
		return c.misused("--admit needs --guard: without it no master waits for anything")
	case *inside && *given != "":
		return c.misused("--embedded brings its own masters: it does not go with --nodes")
	}
	urls, end, err := c.patients(*given, *inside)
	if err != nil {
		return c.misused("%v", err)
	}
	defer end()
	locker, err := redlock.Open(urls, append(guarding(*guard), redlock.WithNodeTimeout(coldTimeout))...)
	if err != nil {
		return c.misused("%v", err)
	}
	defer closeSoon(locker)
	ask := locker.Diagnose
	if *admit {
		ask = locker.Admit
	}
	report, err := ask(ctx)
	if report == nil {
		c.say("%v", err)
		return refusal(err)
	}
	c.show(report, *asJSON)
	switch {
	case err != nil || report.Failed():
		return exitFailed
	case *admit && !*asJSON:
		_, _ = fmt.Fprintln(c.stdout, "They are admitted: clients can start.")
	}
	return exitOK
}

func (c *call) show(report *redlock.Report, asJSON bool) {
	if !asJSON {
		printReport(c.stdout, report)
		return
	}
	e := json.NewEncoder(c.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(report)
}

// patients are the masters to look at: those given, or some of this process.
func (c *call) patients(given string, inside bool) (urls []string, end func(), err error) {
	if !inside {
		urls, err = c.nodes(given)
		return urls, func() {}, err
	}
	s, err := ownStage()
	if err != nil {
		return nil, nil, err
	}
	for _, m := range s.masters {
		urls = append(urls, m.URL()+"?name="+m.Name())
	}
	return urls, s.close, nil
}
