// Package goredisnodes tests contrib/goredisnodes on real Redis servers: clients of every kind, and
// the program of its README.
package goredisnodes
