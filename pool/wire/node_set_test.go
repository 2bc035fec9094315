package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// docs/dev/hazards.md H34: the first name stands until its last connection has ended.
func TestAServerVotesUnderOneNameAtATime(t *testing.T) {
	f := wire.NewNodeSet(false)
	require.NoError(t, f.Join("run", "a"))
	require.NoError(t, f.Join("run", "a"), "another connection of the same node")
	require.NoError(t, f.Join("other", "b"))
	err := f.Join("run", "b")
	require.ErrorIs(t, err, wire.ErrUnfit)
	require.ErrorContains(t, err, "a and b are the same server (run_id run…)")

	f.Leave("run", "b") // which has not joined
	f.Leave("none", "a")
	f.Leave("run", "a")
	require.Error(t, f.Join("run", "b"))
	f.Leave("run", "a")
	require.NoError(t, f.Join("run", "b"))
	require.Error(t, f.Join("run", "a"))
}

func TestAFleetExceptsWhomItNames(t *testing.T) {
	var none *wire.NodeSet
	require.False(t, none.Exempts("a"))
	require.False(t, wire.NewNodeSet(false).Exempts("a"))
	require.True(t, wire.NewNodeSet(true).Exempts("a"))
	some := wire.NewNodeSet(false, "a", "c")
	require.True(t, some.Exempts("a"))
	require.False(t, some.Exempts("b"))
}

func TestGradesAreWordsInJSON(t *testing.T) {
	for grade, word := range map[wire.Grade]string{wire.Note: "note", wire.Warning: "warning", wire.Error: "error"} {
		f := wire.Finding{Grade: grade, Code: "c", Text: "t"}
		text, err := json.Marshal(f)
		require.NoError(t, err)
		require.JSONEq(t, `{"grade":"`+word+`","code":"c","text":"t"}`, string(text))
		var back wire.Finding
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, f, back)
	}
	require.Equal(t, "grade(9)", wire.Grade(9).String())
	var g wire.Grade
	require.Error(t, g.UnmarshalText([]byte("fatal")))
}

func TestPersistenceIsToldInWords(t *testing.T) {
	known := wire.Facts{Role: "master"}
	withAOF := wire.Facts{Role: "master", AOF: true}
	for want, e := range map[string]wire.Diagnosis{
		"unknown":           {Facts: wire.Facts{Unread: "NOPERM", AOF: true}},
		"AOF":               {Facts: withAOF},
		"AOF, fsync always": {Facts: withAOF, Configured: true, Fsync: "always", Snapshots: true},
		"no AOF":            {Facts: known},
		"snapshots":         {Facts: known, Configured: true, Snapshots: true},
		"none":              {Facts: known, Configured: true},
	} {
		require.Equal(t, want, e.Persistence())
	}
}
