// Package undo knows what is still to be deleted on a server. It has no clock, goroutine, mutex or connection.
//
//	late.go     Late: acquires that a server may execute late, and what is sent to delete what they make
//	parked.go   Parked: undos that a server answered by an error, and when each is sent again
//	nothing.go  Nothing: acquires that surely executed nothing, so that their undos need not be sent again
package undo
