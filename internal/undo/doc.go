// Package undo knows what is still to be deleted on a server. It has no clock, goroutine, mutex or connection.
//
//	late.go  Late: acquires that a server may execute late, and what is sent to delete what they make
package undo
