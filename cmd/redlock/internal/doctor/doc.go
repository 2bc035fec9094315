// Package doctor is `redlock doctor`: whether nodes are fit to vote. It prints the report of redlock/doctor.
//
//	doctor.go    the flags, the examination, and --admit
//	begin.go     --begin-guard
//	text.go      the report for people
//	votes.go     how many nodes can vote
package doctor
