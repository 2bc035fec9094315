// Package otelredlock records what happens to locks as OpenTelemetry metrics and spans. It is a module of its own, so that users of
// package redlock who want none of it do not get OpenTelemetry.
//
//	trace, err := otelredlock.New()
//	if err != nil { … }
//	locker, err := redlock.Open(urls, redlock.WithTrace(trace))
//
// It stands on redlock.Trace alone: it adds nothing to the path of a lock but the hooks, which run on a goroutine of their own. So what
// is recorded is some microseconds late, and when hooks fall behind by 4,096 events, further ones are missing from the figures; the
// Locker's log says how many.
//
// docs/telemetry.md lists every metric and attribute, and says what to alarm on.
package otelredlock
