// Package request is the lock that `run` and `acquire` request: its flags, and the wait for it.
//
//	request.go        the flags, and the Locker
//	acquire.go        one attempt, and the wait after it
//	wait_status.go    the line on a terminal during the wait
package request
