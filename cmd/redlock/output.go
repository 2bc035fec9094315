package main

import "os"

// output is standard output. It keeps the first error, and writes nothing after it: what follows a
// gap is of no use. It is not safe for concurrent use.
type output struct {
	file *os.File
	err  error
}

func (o *output) Write(text []byte) (n int, err error) {
	if o.err == nil {
		n, o.err = o.file.Write(text)
	}
	return n, o.err
}

// reportOutput reports output that could not be written. It returns the status, or exitSystem in
// place of a success.
func (inv *invocation) reportOutput(status int) int {
	if inv.stdout.err == nil {
		return status
	}
	inv.say("the output could not be written: %v", inv.stdout.err)
	if status == exitOK {
		return exitSystem
	}
	return status
}
