// Package tcpfault is a TCP proxy between a client and a server that injects faults into
// connections: delays, one-way loss, cuts and resets.
//
// A [Proxy] forwards bytes unchanged until a fault is set. A fault applies to existing connections
// and to later ones. The proxy never drops bytes that it holds back. They arrive when forwarding
// resumes, as in TCP, or never if the connection ends first. The well-known proxy is not used for
// that reason: it drops the bytes of a stopped direction, which no network does to a connection
// that survives, and comes with an HTTP server, metrics and a logger.
package tcpfault
