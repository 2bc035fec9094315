package redlock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing listens at the addresses: Open dials in the background.
func TestALockerIsOpenedFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes")
	require.NoError(t, os.WriteFile(file, []byte("redis://127.0.0.1:1\n\nredis://127.0.0.1:2\n"), 0o600))
	for name, test := range map[string]struct {
		env  map[string]string
		want []string
	}{
		"a list": {map[string]string{"REDLOCK_NODES": "redis://127.0.0.1:1, redis://127.0.0.1:2"}, []string{"127.0.0.1:1/0", "127.0.0.1:2/0"}},
		"a file": {map[string]string{"REDLOCK_NODES_FILE": file}, []string{"127.0.0.1:1/0", "127.0.0.1:2/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, test.env)
			t.Setenv("REDLOCK_PREFIX", "lock/")
			t.Setenv("REDLOCK_GUARD", "30s")
			l, err := OpenEnv(WithOwner("me"))
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Close(bg)) }()
			require.Equal(t, test.want, nodeNames(l.nodes))
			require.Equal(t, "lock/", l.set.prefix)
			require.True(t, l.set.guarded)
			require.EqualValues(t, 30e9, l.set.guardTTL)
			require.Equal(t, "me", l.set.owner)
			other, err := OpenEnv(WithKeyPrefix("mine/"))
			require.NoError(t, err)
			require.Equal(t, "mine/", other.set.prefix, "the program's own options come last")
			require.NoError(t, other.Close(bg))
		})
	}
}

func TestAWrongEnvironmentIsRefused(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"no nodes: set REDLOCK_NODES or REDLOCK_NODES_FILE":      {"REDLOCK_NODES": " "},
		"REDLOCK_NODES and REDLOCK_NODES_FILE are both set":      {"REDLOCK_NODES": "redis://a:1", "REDLOCK_NODES_FILE": "x"},
		"the list of nodes contains an empty URL":                {"REDLOCK_NODES": "redis://a:1,"},
		"REDLOCK_NODES_FILE takes the name of a file, not a URL": {"REDLOCK_NODES_FILE": "redis://:secret@a:1"},
		"can't be read": {"REDLOCK_NODES_FILE": "secret@host"},
		`REDLOCK_GUARD: a duration needs a unit: 30ms`: {"REDLOCK_NODES": "redis://a:1", "REDLOCK_GUARD": "30"},
		`REDLOCK_GUARD: a duration is needed`:          {"REDLOCK_NODES": "redis://a:1", "REDLOCK_GUARD": "redis://:secret@a:1"},
		"WithKeyPrefix: 620 bytes, at most 512": {
			"REDLOCK_NODES": "redis://a:1", "REDLOCK_PREFIX": "redis://:secret@a:1," + strings.Repeat("x", 600),
		},
		"URL 1 of 1":       {"REDLOCK_NODES": "http://:secret@a:1"},
		"WithRestartGuard": {"REDLOCK_NODES": "redis://a:1", "REDLOCK_GUARD": "-1s"},
		"REDLOCK_NODES or REDLOCK_NODES_FILE; REDLOCK_GUARD: a d": {"REDLOCK_GUARD": "x"},
	} {
		t.Run(want, func(t *testing.T) {
			setenv(t, env)
			_, err := OpenEnv()
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// setenv sets the variables of Locker settings, and clears those that are not given.
func setenv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{"REDLOCK_NODES", "REDLOCK_NODES_FILE", "REDLOCK_PREFIX", "REDLOCK_GUARD"} {
		t.Setenv(name, env[name])
	}
}
