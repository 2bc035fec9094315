// Package bench is `redlock bench`: how long it takes to acquire and release a lock.
//
//	bench.go        the flags, and the course
//	sample.go       what one client measures
//	histogram.go    durations, counted in buckets
//	text.go         the result for people and for programs
package bench
