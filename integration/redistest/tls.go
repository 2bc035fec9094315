package redistest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/testcontainers/testcontainers-go"
)

// Authority signs certificates for one test.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority creates an authority.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	cert, key := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	return &Authority{cert, key}
}

// Issue signs a certificate for 127.0.0.1 and for hosts, for either end of a connection. It is valid for an
// hour.
func (a *Authority) Issue(t testing.TB, name string, hosts ...string) tls.Certificate {
	t.Helper()
	cert, key := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.ParseIP(loopback)}, DNSNames: hosts,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// Pool returns a pool with only this authority.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Files returns the texts of a certificate for a host, of its key, and of the authority's certificate, as files in
// PEM.
func (a *Authority) Files(t testing.TB, host string) (cert, key, authority string) {
	t.Helper()
	own := a.Issue(t, host, host)
	private, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	must(t, err)
	return string(pemOf("CERTIFICATE", own.Certificate[0])), string(pemOf("PRIVATE KEY", private)), string(a.text())
}

func (a *Authority) text() []byte { return pemOf("CERTIFICATE", a.cert.Raw) }

// sign creates a key, and a certificate for it from a template. Without an authority the
// certificate is self-signed.
func sign(t testing.TB, template *x509.Certificate, by *Authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.BasicConstraintsValid = true
	if by == nil {
		by = &Authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert, key
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("redistest: create certificate: %v", err)
	}
}

// trust returns the file of the authorities whose clients a server accepts: that of the
// administrator and the i-th of those that the server was started with.
func trust(i int) string { return fmt.Sprintf("/data/trust-%d.crt", i) }

// StartTLS is [Start] for servers that only accept TLS, and that reject clients whose certificate is
// not signed by the first of the given authorities. [Node.Trust] changes that authority. The
// returned authority signs the servers' certificates.
func StartTLS(t testing.TB, n int, clients ...*Authority) (nodes []*Node, servers *Authority) {
	t.Helper()
	servers = NewAuthority(t, "servers")
	own := servers.Issue(t, "server")
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	must(t, err)
	texts := map[string][]byte{"/data/server.crt": pemOf("CERTIFICATE", own.Certificate[0]), "/data/server.key": pemOf("PRIVATE KEY", key)}
	for i, a := range clients {
		texts[trust(i)] = append(servers.text(), a.text()...)
	}
	files := testcontainers.CustomizeRequestOption(func(r *testcontainers.GenericContainerRequest) error {
		for path, text := range texts { // a new reader for each node, because the first node drains its reader
			r.Files = append(r.Files, testcontainers.ContainerFile{Reader: bytes.NewReader(text), ContainerFilePath: path, FileMode: 0o644})
		}
		return nil
	})
	admin := &tls.Config{RootCAs: servers.Pool(), Certificates: []tls.Certificate{servers.Issue(t, "administrator")}, MinVersion: tls.VersionTLS12}
	return startAll(t, n, launch{
		portOption: "--tls-port",
		args: []string{
			"--port", "0", "--tls-auth-clients", "yes",
			"--tls-cert-file", "/data/server.crt", "--tls-key-file", "/data/server.key", "--tls-ca-cert-file", trust(0),
		},
		dial: []redis.DialOption{redis.DialUseTLS(true), redis.DialTLSConfig(admin)},
		how:  []testcontainers.ContainerCustomizer{files},
	}), servers
}

// Trust makes a server accept, from the next connection on, clients of the i-th of the authorities
// that it was started with.
func (n *Node) Trust(t testing.TB, i int) {
	t.Helper()
	n.Do(t, "CONFIG", "SET", "tls-ca-cert-file", trust(i))
}
