// Package cli is what every subcommand of redlock needs: its words and flags, its streams and environment, the nodes
// and a Locker over them, signals, and how it ends. It knows no subcommand.
//
//	subcommand.go, flags.go          a subcommand: from cobra's words to its function; flags that several have
//	overview.go                      the help on what subcommands have in common
//	invocation.go, output.go         an invocation: words, environment and streams; messages
//	exit.go, failure.go              how it ends: exit statuses, and failures as text and as JSON
//	nodes.go, tls.go, locker.go      the nodes, how to reach them, and a Locker over them
//	closing.go                       how a Locker is left
//	guard.go                         --guard
//	holder.go                        how a holder is shown
//	signals.go, signals_other.go     the signals that end a wait
//	timeouts.go, timeouts_long.go    times that tests make longer
package cli
