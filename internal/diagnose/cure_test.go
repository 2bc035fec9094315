package diagnose

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

func TestWhatKeepsANodeFromAnsweringHasACure(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("NOAUTH Authentication required" + "."), "a could not be examined: NOAUTH Authentication required: put the user's password"},
		{errors.New("pool: AUTH: WRONGPASS invalid pair"), "a could not be examined: pool: AUTH: WRONGPASS invalid pair: correct the user"},
		{errors.New("DENIED Redis is running in protected mode"), "protected mode: give the server a password"},
		{errors.New("LOADING Redis is loading the dataset in memory"), "in memory: it votes when"},
		{fmt.Errorf("pool: dialling redis://b:1/0: %w", syscall.ECONNREFUSED), "a could not be examined: connection refused: no server listens there: start it"},
		{command.ErrTimeout, "a could not be examined: no answer within 2s: its process may be frozen"},
		{errors.New("pool: dialling redis://a:1/0: dial tcp 10.0.0.1:1: i/o timeout"), "a could not be examined: no answer within 2s: "},
		{errors.New("pool: dialling rediss://a:1/0: TLS handshake: context deadline exceeded"), "a could not be examined: no TLS handshake within 2s: "},
		{errors.New("no such host"), "a could not be examined: no such host"},
	} {
		n := &node{Node: "a"}
		n.unreachable(c.err, 2*time.Second)
		require.Len(t, n.Findings, 1)
		require.Equal(t, doctor.Error, n.Findings[0].Grade)
		require.Equal(t, command.CodeUnreachable, n.Findings[0].Code)
		require.Contains(t, n.Findings[0].Text, c.want)
	}
}
