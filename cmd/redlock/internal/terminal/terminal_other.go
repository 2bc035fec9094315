//go:build !unix || aix || solaris

package terminal

import "os"

// Terminal does nothing on this system.
type Terminal struct{}

// Open returns nil.
func Open(*os.File) *Terminal { return nil }

func (*Terminal) ours() bool { return false }

// IsTerminal reports false.
func IsTerminal(*os.File) bool { return false }

// WindowSize returns an unknown size.
func WindowSize(*os.File) (columns, rows int, ok bool) { return 0, 0, false }
