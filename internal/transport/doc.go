// Package transport carries calls to one server and replies back. It knows nothing of locks.
//
//	settings.go   how a server is reached
//	dial.go       TCP, unix and TLS under one deadline
//	stranger.go   what answered, if it is no Redis, or not without TLS
//	wrapped.go    dials by the functions of a service's own pool
//	conn.go       Conn: calls out, replies in, one end
//	greet.go      AUTH, SELECT and what is asked behind them, in one round trip
//	coalesce.go   collects what redigo writes into one system call
//	bounds.go     bounds replies before redigo parses them
//	watchdog.go   ends a connection whose peer is silent
//	pace.go       fewer writes to a peer that is silent
//	redial.go     the pause between dials
//	errors.go     errors that pass for no context's
package transport
