package redistest

// AfterHandshake is for the tests.
var AfterHandshake = afterHandshake

// Proxied reports whether clients reach the node through a proxy.
func (n *Node) Proxied() bool { return n.proxy != nil }
