package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/redlock"
)

func doctorEntry() command {
	return command{
		name:    "doctor",
		summary: "say whether masters are fit to hold locks",
		flags:   doctorFlags,
		about:   doctorAbout,
		exitStatuses: []exitStatus{
			{exitOK, "no errors were found; with --admit, all masters are admitted; with --begin-guard, all vote"},
			{exitFailed, "an error was found, or a master was not admitted; with --begin-guard, what the message says was changed"},
			endsMisused,
			{exitUnavailable, "--begin-guard: the masters did not vote in time"},
			{exitConfig, "--begin-guard: a client with another list or another maxTTL was there first"},
			{exitSignal, "signal n ended --begin-guard; the same command goes on to wait"},
		},
		examples: []string{
			"redlock doctor --nodes redis://a:6379,redis://b:6379,redis://c:6379",
			"redlock doctor --guard 1m --admit  # before the first client is started",
			"redlock doctor --guard 1m --begin-guard  # where clients without the guard may have locks",
		},
	}
}

const doctorAbout = `It asks every master what it is and whether it is fit to hold locks: a master, and no
replica, Sentinel or member of a Cluster; another server than the others; one that
evicts no keys; with all rights that are needed. On each it tries the commands that
a lock needs, in ways that change nothing, on a key with --prefix. Behind the name stand
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

With --begin-guard it begins the restart guard on masters where clients may have locks: it
writes a marker on each, which quarantines it for maxTTL, and waits until all of them vote.
From then on they refuse clients without the guard, and nobody gets a lock before the wait
is over; locks that are held stay held. It refuses where an error is found. When it was
ended early the same command goes on to wait. Other subcommands with --guard refuse to
write the first marker.

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
`

func doctorFlags(f *flagSet) runFunc {
	d := &doctor{given: nodesFlags(f), guardGiven: guardFlag(f), prefix: prefixFlag(f), asJSON: jsonFlag(f)}
	f.BoolVar(&d.inside, "embedded", false, "look at three masters inside of this process, to see what it says")
	f.BoolVar(&d.admit, "admit", false, "take new masters in at once (see below)")
	f.BoolVar(&d.begins, "begin-guard", false, "begin the restart guard, and wait until all masters vote under it (see below)")
	return d.examine
}

// doctor is what the doctor was asked for.
type doctor struct {
	given         nodeFlags
	guardGiven    flag.Value
	prefix        *prefixValue
	asJSON        *bool
	inside        bool
	admit, begins bool
}

func (d *doctor) examine(ctx context.Context, c *invocation) int {
	guard, err := c.guard(d.guardGiven)
	switch {
	case err != nil:
		return c.misused("%v", err)
	case len(c.all()) > 0:
		return c.misused("it takes no NAME: it looks at the masters")
	case d.admit && guard == 0:
		return c.misused("--admit needs --guard: without it no master waits for anything")
	case d.begins && guard == 0:
		return c.misused("--begin-guard needs --guard")
	case d.begins && d.admit:
		return c.misused("--begin-guard waits, and --admit skips the wait: give one of them")
	case d.inside && d.given.given():
		return c.misused("%v", errEmbedded)
	}
	nodes, end, err := c.mastersOf(d.given, d.inside)
	if err != nil {
		return c.misused("%v", err)
	}
	defer end()
	locker, err := nodes.open(append(guarding(guard), c.prefix(d.prefix), redlock.WithNodeTimeout(coldTimeout))...)
	if err != nil {
		return c.misused("%v", err)
	}
	defer closeSoon(locker)
	if d.begins {
		return d.begin(ctx, c, locker, nodes, guard)
	}
	ask := locker.Diagnose
	if d.admit {
		ask = locker.Admit
	}
	report, err := ask(ctx)
	if report == nil {
		c.say("%v", err)
		return refusal(err)
	}
	return d.print(c, report, err)
}

// print shows what was found, and says what was refused.
func (d *doctor) print(c *invocation, report *redlock.Report, err error) int {
	if *d.asJSON {
		_ = c.object(report)
	} else {
		printReport(newPrinter(c), report)
	}
	switch {
	case err != nil && *d.asJSON:
		c.say("%v", err) // which has it all in words
		return exitFailed
	case err != nil:
		c.say("%s", notAdmitted(report))
		return exitFailed
	case report.Failed():
		return exitFailed
	case d.admit && !*d.asJSON:
		_, _ = fmt.Fprintln(c.stdout, "They are admitted: clients can start.")
	}
	return exitOK
}

// notAdmitted says what became of an admission, below a report that says why.
func notAdmitted(report *redlock.Report) string {
	var admitted []string
	for _, n := range report.Nodes {
		if !slices.ContainsFunc(n.Findings, blocksAdmission) && n.Guard == redlock.GuardOK {
			admitted = append(admitted, n.Node)
		}
	}
	if admitted == nil {
		return "no master was admitted: the errors that were found say why, and what to do"
	}
	return "not all masters were admitted, but " + strings.Join(admitted, ", ") + ": the errors that were found say why, and what to do"
}

// blocksAdmission reports whether a finding is why no master, or not this one, was admitted.
func blocksAdmission(f redlock.Finding) bool { return f.Code == "admission" }

// mastersOf are those given, or some of this process.
func (inv *invocation) mastersOf(given nodeFlags, inside bool) (nodes nodeList, end func(), err error) {
	if !inside {
		nodes, err = inv.nodes(given)
		return nodes, func() {}, err
	}
	s, err := ownStage()
	if err != nil {
		return nodes, nil, err
	}
	for _, m := range s.masters {
		nodes.urls = append(nodes.urls, m.URL()+"?name="+m.Name())
	}
	return nodes, s.close, nil
}
