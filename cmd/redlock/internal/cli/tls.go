package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/internal/env"
)

// TLSConfig makes the TLS configuration of a connection. The files are read at every dial, so
// certificates can be renewed while a command runs.
type TLSConfig func(context.Context) (*tls.Config, error)

// newTLSConfig makes one of --cacert, --cert and --key; nil when none of them is given.
func newTLSConfig(cacert, cert, key string) (TLSConfig, error) {
	switch {
	case (cert == "") != (key == ""):
		return nil, errors.New("--cert and --key need each other")
	case cacert == "" && cert == "":
		return nil, nil
	}
	load := func(context.Context) (*tls.Config, error) { return loadTLS(cacert, cert, key) }
	_, err := loadTLS(cacert, cert, key) // errors are reported before the first dial
	return load, err
}

// loadTLS reads the files.
func loadTLS(cacert, cert, key string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if cacert != "" {
		text, err := env.ReadFile("--cacert", cacert)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--cacert: %s contains no certificate in PEM form", cacert)
		}
	}
	if cert != "" {
		certText, err := env.ReadFile("--cert", cert)
		if err != nil {
			return nil, err
		}
		keyText, err := env.ReadFile("--key", key)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certText, keyText)
		if err != nil {
			return nil, fmt.Errorf("--cert %s and --key %s do not match in PEM form: %w", cert, key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
