package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/stage"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// pki is a certificate authority, and a certificate and key of 127.0.0.1 that it signed, as files.
type pki struct{ ca, cert, key string }

func newPKI(t *testing.T) pki {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's own CA"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	require.NoError(t, err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return pki{write("ca", "CERTIFICATE", caDER), write("cert", "CERTIFICATE", leafDER), write("key", "EC PRIVATE KEY", keyDER)}
}

// config is that of both sides of a connection.
func (p pki) config(context.Context) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(p.ca)
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(text)
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, RootCAs: authority,
		ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}, nil
}

// front ends TLS before a node, for clients with a certificate of the authority, and returns
// the address.
func (p pki) front(t *testing.T, m *fakeredis.Master) string {
	t.Helper()
	cfg, err := p.config(t.Context())
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			master, err := net.Dial("tcp", m.Addr())
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(client, master); _ = client.Close() }()
			go func() { _, _ = io.Copy(master, client); _ = master.Close() }()
		}
	}()
	return l.Addr().String()
}

func TestMastersAreReachedByTLSWithAPrivateAuthorityAndAClientCertificate(t *testing.T) {
	t.Parallel()
	p, stranger := newPKI(t), newPKI(t)
	var urls []string
	all := masters(t)
	for _, m := range all {
		urls = append(urls, "rediss://"+p.front(t, m)+"?name="+m.Name())
	}
	env := []string{"REDLOCK_NODES=" + strings.Join(urls, ",")}
	good := []string{"--cacert", p.ca, "--cert", p.cert, "--key", p.key}
	claim, text := acquired(t, all, env, append(good, "job")...)
	require.Equal(t, []string{"job"}, claim.Names)
	got := invoke(t, env, append([]string{"status", "job"}, good...)...)
	require.Contains(t, got.out, "job is held")
	require.Equal(t, silent, invokeWith(t, text, env, append([]string{"release", "-"}, good...)...))
	require.Equal(t, cli.ExitOK, invoke(t, env, append([]string{"doctor"}, good...)...).status)
	require.Equal(t, cli.ExitOK, invoke(t, env, append([]string{"bench", "--count", "3"}, good...)...).status)
	s, err := stage.Open(cli.NodeList{URLs: urls, TLS: p.config}, "")
	require.NoError(t, err)
	l, end, err := s.Client("demo")
	require.NoError(t, err)
	eventually(t, "the nodes answer within a stage's node timeout", func() bool { return l.Healthy(t.Context()) == nil })
	end()

	for what, flags := range map[string][]string{
		"the system's authorities": nil,
		"another authority":        {"--cacert", stranger.ca, "--cert", p.cert, "--key", p.key},
		"no certificate":           {"--cacert", p.ca},
		"another's certificate":    {"--cacert", p.ca, "--cert", stranger.cert, "--key", stranger.key},
	} {
		got := invoke(t, env, append([]string{"status", "job"}, flags...)...)
		require.Equal(t, cli.ExitUnavailable, got.status, "%s: %v", what, got)
	}
}

func TestTLSFilesThatCantBeUsedAre64(t *testing.T) {
	t.Parallel()
	p, other, garbage := newPKI(t), newPKI(t), fileWith(t, "sesame")
	for says, flags := range map[string][]string{
		"--cert and --key need each other":                    {"--cert", p.cert},
		"--cert and --key need each":                          {"--key", p.key},
		"--cacert: /no/such/file can't be read: no such file": {"--cacert", "/no/such/file"},
		"contains no certificate in PEM form":                 {"--cacert", garbage},
		"do not match in PEM form: tls: private key does not": {"--cert", p.cert, "--key", other.key},
		"do not match in PEM form: tls: failed to find any":   {"--cert", garbage, "--key", p.key},
		"--key: /no/such/file can't be read":                  {"--cert", p.cert, "--key", "/no/such/file"},
	} {
		got := invoke(t, []string{"REDLOCK_NODES=rediss://127.0.0.1:1"}, append([]string{"status", "n"}, flags...)...)
		require.Equal(t, cli.ExitUsage, got.status, got)
		require.Contains(t, got.err, says)
		require.NotContains(t, got.err, "sesame")
	}
	got := invoke(t, []string{"REDLOCK_NODES=redis://127.0.0.1:1"}, "status", "n", "--cacert", p.ca)
	require.Equal(t, cli.ExitUsage, got.status, got)
	require.Contains(t, got.err, "need a node with a rediss URL")
}
