package integration

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// Redis without TLS neither answers a TLS handshake nor closes the connection. Redis with TLS closes a
// connection without TLS.
func TestTLSOnOneSideOnlyIsSaid(t *testing.T) {
	secured, _ := redistest.StartTLS(t, 1, redistest.NewAuthority(t, "clients"))
	plain := redistest.Start(t, 1)
	for name, c := range map[string]struct {
		config pool.Config
		want   string
	}{
		"only the server": {pool.Config{Name: "a", Address: secured[0].Addr()}, "the server speaks TLS on this port: use TLS there (rediss:// in the URL)"},
		"only the client": {pool.Config{Name: "a", Address: plain[0].Addr(), TLS: func(context.Context) (*tls.Config, error) {
			return &tls.Config{MinVersion: tls.VersionTLS12}, nil
		}}, "the server does not speak TLS on this port: use no TLS there (redis:// in the URL)"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := pool.Open(c.config)
			require.NoError(t, err)
			l, err := redlock.New([]*pool.Node{n}, redlock.WithNodeTimeout(busyTimeout))
			require.NoError(t, err)
			t.Cleanup(func() { closeLocker(t, l) })
			r, err := doctor.Diagnose(t.Context(), l)
			require.NoError(t, err)
			require.Contains(t, r.Nodes[0].Findings[0].Text, c.want)
		})
	}
}
