package command

// Op is the operation that a request asks of a node.
type Op uint8

// The operations. Only Acquire and Repair create keys; see [Op.Creates].
const (
	_            Op = iota
	Acquire         // acquire all keys for the token for TTL, or none of them; with a Hint, increase their fence counters
	Confirm         // raise the fence counters to Fence if all keys hold the token
	Repair          // acquire missing keys again for the token, if no other token holds any
	Extend          // set the TTL of all keys if all hold the token; never shortens, never creates
	Release         // delete the keys that hold the token
	Shorten         // lower the TTL of the keys that hold the token; a release with a minimum hold
	Inspect         // read the values of the keys and their TTLs
	Ping            // answer
	VerifyMarker    // report the state of the restart guard, and update the marker
	Info            // report what the server is
	Poll            // report whether a key exists, and its TTL; never a vote
	Sweep           // delete each key that holds its own token; its answer is not needed
)

var names = [...]string{
	Acquire: "acquire", Confirm: "confirm", Repair: "repair", Extend: "extend", Release: "release", Shorten: "shorten",
	Inspect: "inspect", Ping: "ping", VerifyMarker: "verify", Info: "info", Poll: "poll", Sweep: "sweep",
}

// String returns the operation's name, as errors show it.
func (op Op) String() string { return names[op] }

// Creates reports whether the operation may create a key. A node executes such a command at most
// once: it is sent again only if the server has refused it unexecuted. If its connection is lost
// before the answer, the server may still execute the command later (docs/dev/hazards.md H1, H95).
func (op Op) Creates() bool { return op == Acquire || op == Repair }

// Undoes reports whether the operation removes or shortens what a token holds. Such a command is
// kept across connections until it is answered or its NotAfter has passed. Sending it twice does
// no harm.
func (op Op) Undoes() bool { return op == Release || op == Shorten }
