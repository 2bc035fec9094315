package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/internal/env"
)

// tlsConfig makes the TLS configuration of a connection. The files are read at every dial, so
// certificates can be renewed while a command runs.
type tlsConfig func(context.Context) (*tls.Config, error)

// tlsConfig is made of --cacert, --cert and --key; nil when none of them is given.
func (n nodeFlags) tlsConfig() (tlsConfig, error) {
	switch {
	case (*n.cert == "") != (*n.key == ""):
		return nil, errors.New("--cert and --key need each other")
	case *n.cacert == "" && *n.cert == "":
		return nil, nil
	}
	load := func(context.Context) (*tls.Config, error) { return n.loadTLS() }
	_, err := n.loadTLS() // errors are reported before the first dial
	return load, err
}

// loadTLS returns the configuration of --cacert, --cert and --key, or nil if none of them is given.
func (n nodeFlags) loadTLS() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if *n.cacert != "" {
		text, err := env.ReadFile("--cacert", *n.cacert)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--cacert: %s contains no certificate in PEM form", *n.cacert)
		}
	}
	if *n.cert != "" {
		cert, err := env.ReadFile("--cert", *n.cert)
		if err != nil {
			return nil, err
		}
		key, err := env.ReadFile("--key", *n.key)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("--cert %s and --key %s do not match in PEM form: %w", *n.cert, *n.key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
