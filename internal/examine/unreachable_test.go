package examine

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/named"
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
		{errors.New("BUSY Redis is busy running a script" + "."), "a script: SCRIPT KILL ends the script, unless"},
		{fmt.Errorf("pool: no connection to redis://b:1/0: %w", syscall.ECONNREFUSED), "a could not be examined: connection refused: no server listens there: start it"},
		{command.ErrTimeout, "a could not be examined: no answer within 2s: its process may be frozen"},
		{errors.New("pool: no connection to redis://a:1/0: i/o timeout"), "a could not be examined: no answer within 2s: "},
		{errors.New("pool: no connection: TLS handshake: context deadline exceeded"), "a could not be examined: no answer within 2s: "},
		{errors.New("no such host"), "a could not be examined: no such host"},
		{fmt.Errorf("pool: %w: s1 cannot be queried (NOAUTH required)", command.ErrUnfit), "(NOAUTH required): set sentinel_user and sentinel_password"},
	} {
		f := Unreachable("a", c.err, 2*time.Second)
		require.Equal(t, Error, f.Grade)
		require.Equal(t, codeUnreachable, f.Code)
		require.Contains(t, f.Text, c.want)
	}
}

// The URL has not the address, so it is not to be corrected.
func TestTheFindingAboutANamedAddressSaysWhoNamedIt(t *testing.T) {
	refused := fmt.Errorf("pool: no connection to redis://b:1/0: %w", syscall.ECONNREFUSED)
	for _, c := range []struct {
		err  error
		want string
	}{
		{refused, "a could not be examined: connection refused: no server listens there: start it; x named b:1"},
		{errors.New("i/o timeout"), "look at the process (SIGCONT resumes one that was stopped), at its machine's load, and at SLOWLOG; x named b:1"},
		{command.ErrTimeout, "no answer within 2s: its process may be frozen"},
		{errors.New("no such host"), "a could not be examined: no such host; x named b:1"},
	} {
		named := &named.Error{Err: c.err, Named: "x named b:1"}
		require.ErrorIs(t, named, c.err)
		require.EqualError(t, named, c.err.Error()+"; x named b:1")
		text := Unreachable("a", fmt.Errorf("several: %w", named), 2*time.Second).Text
		require.Contains(t, text, c.want)
		require.NotContains(t, text, "URL")
	}
}
