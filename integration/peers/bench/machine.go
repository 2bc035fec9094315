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

// A machine is what was measured on, in words.
type machine struct {
	CPU, System, Go, Redis, Day string
	Cores                       int
}

func thisMachine() machine {
	return machine{
		CPU: processor(), System: system(), Go: strings.TrimPrefix(runtime.Version(), "go"), Redis: redisVersion(),
		Day: time.Now().UTC().Format(time.DateOnly), Cores: runtime.NumCPU(),
	}
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, which clients and servers share; %s; Redis %s; Go %s; %s.\n", m.CPU, m.Cores, m.System, m.Redis, m.Go, m.Day)
}

// processor is the model as Linux names it, and the architecture elsewhere.
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
		return "of the servers given"
	}
	for word := range strings.FieldsSeq(string(text)) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			return version
		}
	}
	return "unknown"
}
