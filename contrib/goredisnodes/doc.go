// Package goredisnodes makes nodes for package redlock from clients of go-redis v9. It is for
// programs that have such clients, for example for redsync. It is a module of its own, so users of
// package redlock do not depend on go-redis.
//
//	nodes, err := goredisnodes.Open(clientA, clientB, clientC)
//	if err != nil { … }
//	locker, err := redlock.New(nodes) // its Close closes the nodes
//
// A client is only read. The nodes have connections of their own, which package pool makes with
// redigo. So a node neither waits for the client's pool nor fills it. The client may be closed
// before the nodes, and works after they are closed.
//
// # What is taken over
//
// The address, the user and the password, the providers of credentials, TLS, the database, the
// dialer, the dial timeout and the client name are those of the client. A node authenticates as
// go-redis does: a Username without a password is not sent, and the providers are called at every
// dial. As in go-redis, TLSConfig has no effect on the connections of a Dialer: they are used as
// they come.
//
// Settings of go-redis's own pool, commands, retries and replies are ignored. This includes
// Protocol: nodes speak RESP2.
//
// # What is refused
//
// Options that would make a node behave differently from the client are errors: OnConnect, Limiter,
// StreamingCredentialsProvider, ReplicaOnly, ClusterSlots and NewClient. So are a Ring, and a
// client behind Sentinels, which keeps no addresses of Sentinels: see [FailoverConfig].
//
// An option that a newer go-redis adds is an error if the program set it. If it is a number, or if
// go-redis gives it a value by default, it is ignored.
//
// # What cannot be seen
//
// go-redis has no public way to see a client's hooks. A node calls none of them: a hook that
// traces sees nothing of the lock, and a hook that dials does not change how a node dials. A node
// can also be made from a closed client.
package goredisnodes
