// Package process runs the command of `redlock run`, so that it never outlives redlock: child.go and start_barrier.go start it,
// group.go ends it, and reaper.go and reaper_process.go end it if redlock cannot. adopt_linux.go gets the orphans of a command.
package process
