// Package demo is `redlock demo`: a lock at work, in four acts.
//
//	demo.go                                   the flags, and the course
//	life.go, contend.go, fail.go, takeover.go an act each
package demo
