package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWordThatResemblesAKnownOneIsNamed(t *testing.T) {
	t.Parallel()
	known := names(commands())
	for word, want := range map[string]string{
		"stauts": ": did you mean status?", "acquirre": ": did you mean acquire?", "stat": ": did you mean status?",
		"lsit": ": did you mean list?", "relase": ": did you mean release?", "rnu": ": did you mean run?", "hepl": ": did you mean help?",
		"": "", "x": "", "zzz": "", "ls": ": did you mean list?", "lock": ": did you mean acquire?", "unlock": ": did you mean release?", "\xff\xfe": "",
	} {
		require.Equal(t, want, didYouMean(word, "", known), "%q", word)
	}
	require.Empty(t, didYouMean("ls", "--", []string{"json", "prefix"}))
	require.Equal(t, ": did you mean --nodes-file?", didYouMean("nodesfile", "--", []string{"nodes", "nodes-file"}))
}

func TestTheDistanceCountsEdits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"run", "run", 0}, {"run", "ru", 1}, {"run", "rum", 1}, {"run", "rnu", 1}, {"list", "status", 5}} {
		require.Equal(t, c.want, distance(c.a, c.b), c)
		require.Equal(t, c.want, distance(c.b, c.a), c)
	}
}
