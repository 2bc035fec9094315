package command

// Subscriber is a node that supports pub/sub.
type Subscriber interface {
	// Subscribe returns a subscription without channels. It ends at the latest with the node.
	Subscribe(Listener) Subscription
}

// Subscription is a separate connection for pub/sub. It is safe for concurrent use, and only Close
// waits.
type Subscription interface {
	// Add subscribes to a channel. It starts the connection if necessary.
	Add(channel string)
	// Remove unsubscribes from a channel. Some of its messages may still arrive.
	Remove(channel string)
	// Close ends the connection and waits until the listener is no longer called.
	Close()
}

// Listener receives the events of a Subscription. One goroutine calls it. It must not block.
type Listener interface {
	// Subscribed reports that messages of the channel arrive from now on. It is called again
	// after each reconnect: messages in between are lost.
	Subscribed(channel string)
	// Message reports a message on the channel. Messages may be lost.
	Message(channel, payload string)
	// Down reports that the connection ended. Nothing arrives until Subscribed is called again.
	Down(err error)
}
