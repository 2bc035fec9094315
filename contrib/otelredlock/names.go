package otelredlock

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// The attributes for which no semantic convention has a name.
const (
	namesKey     = attribute.Key("redlock.names")            // of the lock; on spans only
	outcomeKey   = attribute.Key("redlock.outcome")          // of an attempt, acquisition, extension or release; on spans also of a node's vote
	endReasonKey = attribute.Key("redlock.end_reason")       // why a hold ended
	lossKey      = attribute.Key("redlock.loss_reason")      // why a lock ended under its holder
	automaticKey = attribute.Key("redlock.extend.automatic") // whether an extension was automatic
	nodeKey      = attribute.Key("redlock.node")             // the node's name
	operationKey = attribute.Key("redlock.operation")        // of a request to a node
	wakeUpKey    = attribute.Key("redlock.wakeup")           // why a waiting Acquire continues
	confirmedKey = attribute.Key("redlock.confirmed")        // the fencing token took a second round trip
	attemptsKey  = attribute.Key("redlock.attempts")         // the number of attempts of an acquisition
	validityKey  = attribute.Key("redlock.validity")         // the remaining validity, in seconds
)

// errorType is the attribute error.type.
func errorType(of string) attribute.KeyValue { return semconv.ErrorTypeKey.String(of) }

// reasons are the words for why something did not succeed. The first that fits is used. The error of
// a call whose context ended also matches the reason of its last attempt.
var reasons = []struct {
	err  error
	word string
}{
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "canceled"},
	{redlock.ErrClosed, "closed"},
	{redlock.ErrTooLate, "too_late"},
	{redlock.ErrLost, "lost"},
	{redlock.ErrMaxHold, "max_hold"},
	{redlock.ErrReleased, "released"},
	{redlock.ErrDetached, "detached"},
	{redlock.ErrHeld, "held"},
	{redlock.ErrQuarantined, "quarantined"},
	{redlock.ErrNoQuorum, "no_quorum"},
	{redlock.ErrForeignKey, "foreign_key"},
}

// canceled makes err match context.Canceled if the caller's context has ended the call, for whatever cause.
func canceled(caller context.Context, err error) error {
	if cause := context.Cause(caller); cause != nil && errors.Is(err, cause) {
		return errors.Join(context.Canceled, err)
	}
	return err
}

// reason returns one of these words.
func reason(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return "other"
}

// lossReasons are the values of redlock.loss_reason.
var lossReasons = []redlock.LossReason{
	redlock.LossGone, redlock.LossNoQuorum, redlock.LossPaused, redlock.LossExpired, redlock.LossNoProgress, redlock.LossClosed, redlock.LossMaxHold,
}

// loss returns why a lock ended under its holder.
func loss(err error) attribute.KeyValue {
	var lost *redlock.LostError
	if !errors.As(err, &lost) || !slices.Contains(lossReasons, lost.Reason) {
		return lossKey.String("other")
	}
	return lossKey.String(string(lost.Reason))
}

// outcome returns a word for success, or for the reason of a failure. failed reports a fault: not a
// refusal, and not an end that the caller wanted.
func outcome(err error, success string) (word string, failed bool) {
	if err == nil {
		return success, false
	}
	word = reason(err)
	switch word {
	case "held", "canceled", "closed", "released", "detached":
		return word, false
	}
	return word, true
}

// outcomes returns the attributes of an outcome.
func outcomes(err error, success string) []attribute.KeyValue {
	word, failed := outcome(err, success)
	list := []attribute.KeyValue{outcomeKey.String(word)}
	if failed {
		list = append(list, errorType(word))
	}
	return list
}

// serverCodes are the error codes of Redis and of this library's scripts. A server may answer with
// any word, and no other word becomes the value of a metric's attribute.
var serverCodes = []string{
	"ASK", "BUSY", "CLUSTERDOWN", "CROSSSLOT", "DENIED", "ERR", "EXECABORT", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH", "NOPERM",
	"NOREPLICAS", "NOSCRIPT", "OOM", "READONLY", "TRYAGAIN", "UNMARKED", "WRONGPASS", "WRONGTYPE",
}

// code returns the kind of a node's error. It is empty for a command that was cancelled.
func code(err error) (word string, some bool) {
	var server *pool.ServerError
	var quarantine *redlock.QuarantineError
	switch {
	case err == nil, errors.Is(err, pool.ErrGivenUp):
		return "", false
	case errors.As(err, &quarantine):
		return "quarantined", true
	case errors.Is(err, redlock.ErrUnfit):
		return "unfit", true
	case errors.As(err, &server) && slices.Contains(serverCodes, server.Code):
		return server.Code, true
	case server != nil:
		return semconv.ErrorTypeOther.Value.AsString(), true
	}
	for _, k := range []struct {
		err  error
		word string
	}{
		{redlock.ErrForeignKey, "foreign_key"},
		{redlock.ErrNodeTimeout, "timeout"},
		{pool.ErrExpired, "unsent"},
		{pool.ErrSilent, "silent"},
		{pool.ErrDisconnected, "disconnected"},
		{pool.ErrQueueFull, "queue_full"},
		{pool.ErrClosed, "closed"},
	} {
		if errors.Is(err, k.err) {
			return k.word, true
		}
	}
	var dial *net.OpError
	if errors.As(err, &dial) {
		return "no_connection", true
	}
	return semconv.ErrorTypeOther.Value.AsString(), true
}

// server returns the attributes of a node: its name, and the server's address if the name is the
// default (host:port/database). With Sentinels the default is master@sentinel:port/database, which has
// no address of the server.
func server(node string) []attribute.KeyValue {
	list := []attribute.KeyValue{nodeKey.String(node)}
	where, _, found := strings.Cut(node, "/")
	host, digits, err := net.SplitHostPort(where)
	if !found || err != nil || host == "" || strings.Contains(host, "@") {
		return list
	}
	port, err := strconv.Atoi(digits)
	if err != nil {
		return list
	}
	return append(list, semconv.ServerAddress(host), semconv.ServerPort(port))
}
