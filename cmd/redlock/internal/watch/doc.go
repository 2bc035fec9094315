// Package watch repeats a query and shows what changes: --watch of `status` and `list`.
//
//	watch.go    the flags, the repetition, and the screen that is written over
package watch
