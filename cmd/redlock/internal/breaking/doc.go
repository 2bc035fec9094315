// Package breaking is `redlock break`: it takes a lock from its holder. (break is a keyword of Go.)
//
//	breaking.go    the flags, the question, and the deletion
package breaking
