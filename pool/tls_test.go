package pool

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// authority is a CA of a test's own, and a server's certificate that it signed.
type authority struct {
	roots  *x509.CertPool
	server tls.Certificate
}

// newAuthority signs for n1 and 127.0.0.1. Its certificates are valid by the caller's clock: a
// bubble's starts in the year 2000.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	sign := func(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)
		template.BasicConstraintsValid = true
		if parent == nil {
			parent, parentKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
		require.NoError(t, err)
		cert, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return cert, key
	}
	ca, caKey := sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's own CA"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	cert, key := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{"n1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	a := &authority{roots: x509.NewCertPool()}
	a.roots.AddCert(ca)
	a.server = tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	return a
}

func (a *authority) trusted(context.Context) (*tls.Config, error) {
	return &tls.Config{RootCAs: a.roots, MinVersion: tls.VersionTLS12}, nil
}

// front terminates TLS in front of a master, and passes on what it decrypts.
func (a *authority) front(raw, master net.Conn) {
	conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{a.server}, MinVersion: tls.VersionTLS12})
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = raw.Close()
		_ = master.Close()
	}
	both.Go(func() { pass(conn, master) })
	both.Go(func() { pass(master, conn) })
	both.Wait()
}

// withTLS puts TLS in front of a master without a listener.
func withTLS(t *testing.T, m *fakeredis.Master, c *Config) *authority {
	t.Helper()
	a := newAuthority(t)
	c.TLS = a.trusted
	c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		master, err := m.Dial(ctx, "", "")
		if err != nil {
			return nil, err
		}
		client, server := tlsPipe()
		go a.front(server, master)
		return client, nil
	}
	return a
}

// before starts a front on a real socket, in front of a server that listens at the address.
func (a *authority) before(t *testing.T, address string) net.Addr {
	t.Helper()
	return accepting(t, "tcp", "127.0.0.1:0", func(conn net.Conn) {
		master, err := net.Dial("tcp", address)
		if err != nil {
			_ = conn.Close()
			return
		}
		a.front(conn, master)
	}).Addr()
}

func TestANodeSpeaksTLSFromEndToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		n := opened(t, m, func(c *Config) { withTLS(t, m, c) })
		defer n.Close()
		require.Equal(t, "rediss://n1:6379/0", n.String())
		large := strings.Repeat("k", 40_000) // several records
		for range 3 {
			require.Equal(t, command.Granted, acquiring("A", longTTL, "k", large).Outcome(t, n))
			require.Equal(t, []string{"k", large}, m.Keys())
			require.Equal(t, command.Granted, releasing("A", "k", large).Outcome(t, n))
			only(t, m).Drop()
			time.Sleep(time.Second)
		}
		require.Equal(t, int64(4), n.Stats().Dials)
	})
}

func TestAnAuthorityThatIsNotTrustedIsAFailedDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		n := opened(t, m, func(c *Config) {
			withTLS(t, m, c)
			c.TLS = newAuthority(t).trusted
		})
		defer n.Close()
		r := acquiring("A", longTTL, "k").On(n).Reply(t)
		requireUnsent(t, r)
		require.ErrorContains(t, r.Err, "certificate signed by unknown authority")
		var wrong *tls.CertificateVerificationError
		require.ErrorAs(t, r.Err, &wrong)
	})
}

// Certificates rotate, so every dial calls the function.
func TestTheTLSConfigurationIsReadAtEveryDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		asked := 0
		n := opened(t, m, func(c *Config) {
			a := withTLS(t, m, c)
			c.TLS = func(ctx context.Context) (*tls.Config, error) {
				asked++
				return a.trusted(ctx)
			}
		})
		defer n.Close()
		for i := range 3 {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			require.Equal(t, i+1, asked)
			only(t, m).Drop()
			time.Sleep(time.Second)
		}
	})
}

func TestTLSOverRealSocketsServesManyCallers(t *testing.T) {
	m, err := fakeredis.Start("n1")
	require.NoError(t, err)
	defer m.Close()
	a := newAuthority(t)
	n, err := Open(unhurried(Config{Address: a.before(t, m.Addr()).String(), TLS: a.trusted}))
	require.NoError(t, err)
	defer n.Close()
	var calls []*call
	for range 500 {
		calls = append(calls, pinging().On(n))
	}
	for _, c := range calls {
		require.Equal(t, command.Granted, c.Reply(t).Outcome)
	}
	require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
	require.Equal(t, command.Granted, releasing("A", "k").Outcome(t, n))
}

// frozenKinds are the ways to reach a master that Close must not wait for.
func frozenKinds(t *testing.T, m *fakeredis.Master) map[string]func() *Node {
	t.Helper()
	dialled := func(ctx context.Context) (redis.Conn, error) {
		conn, err := m.Dial(ctx, "", "")
		if err != nil {
			return nil, err
		}
		return redis.NewConn(conn, 0, 0), nil
	}
	wrap := func(p *redis.Pool) *Node {
		n, err := Wrap(p, Config{Name: "n1", Clock: configFor(m).Clock})
		require.NoError(t, err)
		return n
	}
	return map[string]func() *Node{
		"own":     func() *Node { return opened(t, m, nil) },
		"TLS":     func() *Node { return opened(t, m, func(c *Config) { withTLS(t, m, c) }) },
		"wrapped": func() *Node { return wrap(&redis.Pool{DialContext: dialled}) },
		"wrapped, Dial": func() *Node {
			return wrap(&redis.Pool{Dial: func() (redis.Conn, error) { return dialled(context.Background()) }})
		},
		"wrapped, TLS": func() *Node { return wrap(&redis.Pool{DialContext: wrappedTLS(t, m)}) },
		"wrapped, reads": func() *Node {
			return wrap(&redis.Pool{DialContext: dialled, TestOnBorrow: borrowed(t), MaxActive: 1, Wait: true})
		},
	}
}

func borrowed(t *testing.T) func(redis.Conn, time.Time) error {
	t.Helper()
	return func(redis.Conn, time.Time) error {
		t.Error("a connection was borrowed")
		return nil
	}
}

// wrappedTLS dials as a service's own pool does.
func wrappedTLS(t *testing.T, m *fakeredis.Master) func(context.Context) (redis.Conn, error) {
	t.Helper()
	var c Config
	a := withTLS(t, m, &c)
	return func(ctx context.Context) (redis.Conn, error) {
		raw, err := c.Dial(ctx, "", "")
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, &tls.Config{RootCAs: a.roots, ServerName: "n1", MinVersion: tls.VersionTLS12})
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return redis.NewConn(conn, 0, 0), nil
	}
}
