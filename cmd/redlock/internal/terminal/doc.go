// Package terminal prints what people read, and knows the terminal that they read it on.
//
//	printer.go, table.go              short lines, aligned, with colours; durations and numbers; tables
//	status_line.go                    one line that is rewritten as work proceeds
//	terminal.go, terminal_other.go    size, foreground and job control
package terminal
