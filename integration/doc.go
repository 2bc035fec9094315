// Package integration has the tests of the library and its command that need real Redis servers:
// their behaviour under every fault that a server can have, and their speed. Package redistest runs
// the servers.
//
// It is a separate module to keep the forty modules of Docker out of the module graph of the
// library's users.
package integration
