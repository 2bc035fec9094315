// Package run is `redlock run`: a lock that is held while a command runs.
//
//	entry.go, unsupported.go       its help; where it is not available
//	options.go                     its flags, and the environment of the command
//	run.go                         its course
//	supervisor.go, deadline.go     watching the command, and until when it may run
//	kill_remaining.go              what the command leaves behind
//	job_control.go                 the job control of a shell
//	modes.go                       the processes that it starts from this program
package run
