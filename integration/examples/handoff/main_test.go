package main

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The second process is this test binary.
func TestMain(m *testing.M) {
	if os.Getenv(nodesOf) != "" {
		os.Exit(run(nil, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestALockMovesToAnotherProcessWithoutEverBeingFree(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, run(nil, &out, &errs), "%s%s", &out, &errs)
	require.Empty(t, errs.String())
	processes := regexp.MustCompile(`process (\d+)`).FindAllStringSubmatch(out.String(), -1)
	require.Len(t, processes, 2)
	require.NotEqual(t, processes[0][1], processes[1][1])
	require.Regexp(t, `(?s)has finished, and releases the lock.*acquired the lock, and found the work done`, out.String())
	require.Contains(t, out.String(), `claim on "example:handoff:order/7" by server:…`, "the claim does not show its whole token")
}

func TestAWorkerReportsAnInvalidClaim(t *testing.T) {
	require.ErrorContains(t, worker([]string{"redis://127.0.0.1:1"}, bytes.NewReader([]byte("nonsense")), &bytes.Buffer{}), "a claim begins with")
}
