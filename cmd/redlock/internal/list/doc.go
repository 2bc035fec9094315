// Package list is `redlock list`: the names that are held. It also finds them for completion.
//
//	list.go      the flags
//	search.go    the search, and the evaluation of what nodes answer
//	text.go      the list for people and for programs
package list
