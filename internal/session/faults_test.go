package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// sound are the facts of a healthy master.
func sound() command.Facts {
	return command.Facts{
		RunID: "r", Version: "7.0.15", Mode: "standalone", Role: "master", Eviction: "noeviction",
		ReplID2: "0000000000000000000000000000000000000000",
	}
}

func TestAFitMasterHasNoFaults(t *testing.T) {
	require.Empty(t, Faults("a", 0, sound()))
	for _, version := range []string{"", "5.0.14"} { // hidden, as by some services, and the oldest one
		other := sound()
		other.Version = version
		require.Empty(t, Faults("a", 0, other), version)
	}
	require.NoError(t, Unfit(nil))
}

// The text of a fault names the node and the remedy.
func TestEachFactThatMattersIsAFault(t *testing.T) {
	for what, c := range map[string]struct {
		change func(f *command.Facts)
		code   string
		words  []string
	}{
		"INFO denied": {
			func(f *command.Facts) { *f = command.Facts{Unread: "NOPERM no right to info"} },
			command.CodeUnreadable,
			[]string{"NOPERM no right to info", "ACL SETUSER", "+info"},
		},
		"INFO says nothing":  {func(f *command.Facts) { *f = command.Facts{} }, command.CodeUnreadable, []string{"run_id and role in INFO"}},
		"no run ID":          {func(f *command.Facts) { f.RunID = "" }, command.CodeUnreadable, []string{"does not report run_id in INFO", "redlocktest"}},
		"no role":            {func(f *command.Facts) { f.Role = "" }, command.CodeUnreadable, []string{"does not report role in INFO"}},
		"a Sentinel's ID":    {func(f *command.Facts) { *f = command.Facts{Mode: "sentinel"} }, command.CodeUnreadable, []string{"does not report run_id in INFO"}},
		"Sentinel":           {func(f *command.Facts) { f.Mode, f.Role = "sentinel", "" }, command.CodeSentinel, []string{"is a Sentinel"}},
		"Cluster":            {func(f *command.Facts) { f.Mode = "cluster" }, command.CodeCluster, []string{"cluster-enabled no"}},
		"replica":            {func(f *command.Facts) { f.Role = "slave" }, command.CodeReplica, []string{"is a replica", "REPLICAOF NO ONE"}},
		"writable replica":   {func(f *command.Facts) { f.Role, f.Writable = "slave", true }, command.CodeReplica, []string{"is a writable replica"}},
		"a new kind of role": {func(f *command.Facts) { f.Role = "loader" }, command.CodeReplica, nil},
		"Redis 4":            {func(f *command.Facts) { f.Version = "4.0.9" }, command.CodeVersion, []string{"Redis 4.0.9", "Redis 5"}},
		"another database":   {func(f *command.Facts) { f.Database = 3 }, command.CodeDatabase, []string{"database 3", "instead of 0"}},
		"locks are evicted": {
			func(f *command.Facts) { f.MaxMemory, f.Eviction = 1<<20, "volatile-lru" },
			command.CodeEviction,
			[]string{"volatile-lru", "maxmemory-policy noeviction"},
		},
		"all keys are": {func(f *command.Facts) { f.MaxMemory, f.Eviction = 1, "allkeys-random" }, command.CodeEviction, nil},
	} {
		f := sound()
		c.change(&f)
		all := Faults("node-a", 0, f)
		require.Len(t, all, 1, what)
		require.Equal(t, c.code, all[0].Code, what)
		for _, w := range append(c.words, "node-a") {
			require.Contains(t, all[0].Text, w, what)
		}
		require.ErrorIs(t, Unfit(all), command.ErrUnfit, what)
		require.ErrorContains(t, Unfit(all), all[0].Text, what)
	}
}

func TestWhatIsHarmlessIsNoFault(t *testing.T) {
	for what, change := range map[string]func(f *command.Facts){
		"they would be evicted":  func(f *command.Facts) { f.Eviction = "volatile-ttl" },
		"it has been promoted":   func(f *command.Facts) { f.ReplID2 = "00ab" },
		"memory is bounded":      func(f *command.Facts) { f.MaxMemory = 1 << 30 },
		"a server without both":  func(f *command.Facts) { f.Eviction, f.ReplID2 = "", "" },
		"a version of its own":   func(f *command.Facts) { f.Version = "unstable" },
		"a version of two parts": func(f *command.Facts) { f.Version = "10.1" },
	} {
		f := sound()
		change(&f)
		require.Empty(t, Faults("a", 0, f), what)
	}
}
