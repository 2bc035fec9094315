package examine

// The states of a node's guard by its marker, as doctor.Node.Guard documents them. Only a node in
// state StateOK votes.
const (
	StateOK          = "ok"
	StateQuarantined = "quarantined"
	StateOutdated    = "outdated"
	StateForeign     = "foreign"
	StateUnreadable  = "unreadable"
	StateNone        = "none"
)
