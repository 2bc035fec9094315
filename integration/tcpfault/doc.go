// Package tcpfault is a TCP proxy between a client and a server that makes the connections through it bad: late, one-way, cut, reset.
//
// A [Proxy] forwards bytes as they are until it is told to do otherwise; what it is told holds for the connections that stand and for
// those to come. Nothing that is held back is thrown away: it arrives when forwarding goes on, as TCP has it, or never, when the
// connection ends first. That is why no ready-made proxy is used here: the one that is well known drops the bytes of a direction that is
// stopped, which no network does to a connection that lives on, and comes with an HTTP server, metrics and a logger.
package tcpfault
