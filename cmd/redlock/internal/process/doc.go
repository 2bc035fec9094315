// Package process runs the command of `redlock run`, so that it never outlives redlock: child.go and start_barrier.go start it,
// group.go and groups.go end it, and reaper.go and reaper_process.go end it if redlock cannot. adopt_linux.go gets the orphans of a command.
package process
