package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Settings say how a server is reached. The Config of package pool makes them, and describes those that both
// have. They do not change.
type Settings struct {
	Network, Address string
	Connect          func(ctx context.Context, network, address string) (net.Conn, error) // Config.Dial
	TLS              func(ctx context.Context) (*tls.Config, error)

	Username, Password string
	Credentials        func(ctx context.Context) (user, password string, err error)
	Database           int
	ClientName         string

	DialTimeout          time.Duration
	HardTimeout          time.Duration
	RedialMin, RedialMax time.Duration
	Clock                clock.Clock

	// Where follows "no connection" in errors: " to " and the address as it may be shown. It is empty where
	// another part of the text has the address.
	Where string
	// Unreachable, unless nil, adds to why the server can't be dialled, or does not answer the greeting, who
	// named its address.
	Unreachable func(err error) error
}

// unreachable returns the error of a dial or a greeting.
func (s *Settings) unreachable(err error) error {
	if s.Unreachable == nil {
		return err
	}
	return s.Unreachable(err)
}

// At returns the settings of a server at another address, which another server named.
func (s *Settings) At(address string) *Settings {
	other := *s
	other.Address = address
	return &other
}

// secrets returns the user and password for one dial. Credentials is called for each dial, so it may return a
// new password every time.
func (s *Settings) secrets(ctx context.Context) (user, password string, err error) {
	// Fixed credentials need no call and no context.
	if s.Credentials == nil {
		return s.Username, s.Password, nil
	}
	user, password, err = s.Credentials(ctx)
	if err != nil {
		return "", "", s.dialFailed(fmt.Errorf("credentials: %w", err))
	}
	return user, password, nil
}

// dialFailed returns the error of a dial. The text is made printable, because it may contain what a
// server or a proxy sent. The error of a context is shown, but it is not the cause.
func (s *Settings) dialFailed(err error) error {
	e := DialError{Text: fmt.Sprintf("pool: no connection%s: %s", s.Where, oneline.Printable(strings.ReplaceAll(err.Error(), "pool: ", "")))}
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		e.Cause = err
	}
	return e
}
