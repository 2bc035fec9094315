package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/versions.md lists these as frozen: alerts search a log for them.
func TestTheNamesOfLogLinesAreFrozen(t *testing.T) {
	t.Chdir("../../..")
	sources := &sourceTexts{all: make(map[string]bool), needed: make(map[string]string)}
	for _, folder := range errorSources {
		require.NoError(t, sources.read(folder))
	}
	var lines []string
	ofErrors := regexp.MustCompile(`^redlock/(errors|doctor/admit)\.go:`)
	for text, place := range sources.needed {
		if (strings.HasPrefix(text, "redlock: ") || strings.HasPrefix(text, "redlock node: ")) && !ofErrors.MatchString(place) {
			lines = append(lines, text)
		}
	}
	slices.Sort(lines)
	require.Equal(t, []string{
		"redlock node: connected",
		"redlock node: connection ended",
		"redlock node: dial failed",
		"redlock node: master is now …, was …",
		"redlock node: may forget locks",
		"redlock node: no cluster node returned CLUSTER SLOTS",
		"redlock node: server refuses SUBSCRIBE, so waiters poll, and may wait long beside processes with the right",
		"redlock node: undos are dropped",
		"redlock: a hook panicked",
		"redlock: a node answers extensions again",
		"redlock: a node does not extend held locks",
		"redlock: a node does not vote",
		"redlock: a node no longer has the keys of held locks",
		"redlock: a node votes again",
		"redlock: a quorum votes again",
		"redlock: hooks fell behind",
		"redlock: lock ended under its holder",
		"redlock: no held lock lacks its keys on a node any more",
		"redlock: no quorum votes: nothing can be acquired",
		"redlock: no right to announcements of releases",
		"redlock: release found the lock lost",
		"redlock: release not confirmed",
		"redlock: this process did not run",
	}, lines)
}
