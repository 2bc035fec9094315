//go:build !linux

package redistest

import (
	"errors"
	"os"
)

// Docker's servers run in a virtual machine.
func ofContainer(int, string) *os.Process { return nil }

func end(*os.Process) bool { return false }

func stop(*os.Process) bool { return false }

func resume(*os.Process) error { return errors.ErrUnsupported }
