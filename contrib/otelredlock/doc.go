// Package otelredlock records events of locks as OpenTelemetry metrics and spans. It is a module of
// its own, so users of package redlock do not depend on OpenTelemetry.
//
//	trace, err := otelredlock.New()
//	if err != nil { … }
//	locker, err := redlock.Open(urls, redlock.WithTrace(trace))
//
// It uses the hooks of redlock.Trace, which run on a goroutine of their own. Events are recorded some
// microseconds late. If the hooks fall behind by 4,096 events, further events are missing from the
// metrics, and the Locker logs their number. The numbers of held locks, of waiters and of nodes are
// read from the Locker when they are collected, so they are right also then.
//
// docs/telemetry.md lists every metric and attribute, and what to raise an alarm on.
package otelredlock
