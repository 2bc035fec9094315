//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A machine describes where and on which day a table was measured.
type machine struct {
	CPU, System, Go, Redis, Day string
	Cores                       int
	Given                       bool `json:",omitempty"` // the servers are those of --nodes, of which nothing is known
}

func thisMachine(given bool) machine {
	m := machine{
		CPU: processor(), System: system(), Go: strings.TrimPrefix(runtime.Version(), "go"),
		Day: time.Now().UTC().Format(time.DateOnly), Cores: runtime.NumCPU(), Given: given,
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
		return fmt.Sprintf("%s, %d cores; %s; servers that were given by --nodes; Go %s; %s", m.CPU, m.Cores, m.System, m.Go, m.Day)
	}
	return fmt.Sprintf("%s, %d cores, which clients and servers share; %s; Redis %s; Go %s; %s", m.CPU, m.Cores, m.System, m.Redis, m.Go, m.Day)
}

func (m machine) String() string { return m.words() + ".\n" }

// unlike returns how m differs from the usual machine, for the title of a table. It names only the
// day if the machine is the same.
func (m machine) unlike(usual machine) string {
	sameDay := m
	sameDay.Day = usual.Day
	switch {
	case m == usual:
		return ""
	case sameDay == usual:
		return "; measured on " + m.Day
	}
	return "; measured on " + m.words()
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
