// Package integration holds the tests of the library and its command that need real Redis servers: what they do under every fault
// that a server can be given, and how fast they are. Package redistest runs the servers.
//
// The module of its own keeps Docker's forty modules out of the module graph of those who import the library.
package integration
