//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A machine describes where, on which day and at which commit a table was measured.
type machine struct {
	CPU, System, Go, Redis, Day string
	Commit                      string `json:",omitempty"` // older data have none
	Cores                       int
	Given                       bool `json:",omitempty"` // the servers are those of --nodes, of which nothing is known
}

func thisMachine(given bool) machine {
	m := machine{
		CPU: processor(), System: system(), Go: strings.TrimPrefix(runtime.Version(), "go"),
		Day: time.Now().UTC().Format(time.DateOnly), Commit: commit(), Cores: runtime.NumCPU(), Given: given,
	}
	if !given {
		m.Redis = redisVersion()
	}
	return m
}

// words returns the description without a full stop.
func (m machine) words() string {
	if m == (machine{}) {
		return "nothing yet"
	}
	if m.Given {
		return fmt.Sprintf("%s, %d cores; %s; servers that were given by --nodes; Go %s; %s", m.CPU, m.Cores, m.System, m.Go, m.when())
	}
	return fmt.Sprintf("%s, %d cores, which clients and servers share; %s; Redis %s; Go %s; %s", m.CPU, m.Cores, m.System, m.Redis, m.Go, m.when())
}

func (m machine) String() string { return m.words() + ".\n" }

// when returns the day and the commit.
func (m machine) when() string {
	if m.Commit == "" {
		return m.Day
	}
	return m.Day + ", at commit " + m.Commit
}

// unlike returns how m differs from the usual machine, for the title of a table. It names only the
// day and the commit if the machine is the same.
func (m machine) unlike(usual machine) string {
	same := m
	same.Day, same.Commit = usual.Day, usual.Commit
	switch {
	case m == usual:
		return ""
	case same == usual:
		return "; measured on " + m.when()
	}
	return "; measured on " + m.words()
}

// commit returns the commit that is measured, and whether the tree has changes, as all pages with
// figures say it.
func commit() string {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "unknown"
	}
	text, err := exec.Command(filepath.Join(strings.TrimSpace(string(top)), "scripts/machine"), "--commit").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// processor returns the name of the CPU model on Linux, and the architecture elsewhere.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if field, value, _ := strings.Cut(line, ":"); strings.TrimSpace(field) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func system() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

func redisVersion() string {
	text, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "unknown"
	}
	for word := range strings.FieldsSeq(string(text)) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			return version
		}
	}
	return "unknown"
}
