package cli

import "os"

// Output is standard output. It keeps the first error, and writes nothing after it: what follows a
// gap has no meaning. It is not safe for concurrent use.
type Output struct {
	File *os.File
	Err  error
}

func (o *Output) Write(text []byte) (n int, err error) {
	if o.Err == nil {
		n, o.Err = o.File.Write(text)
	}
	return n, o.Err
}

// ReportOutput reports output that could not be written. It returns the status, or ExitSystem in
// place of a success.
func (inv *Invocation) ReportOutput(status int) int {
	if inv.Stdout.Err == nil {
		return status
	}
	inv.Say("the output could not be written: %v", inv.Stdout.Err)
	if status == ExitOK {
		return ExitSystem
	}
	return status
}
