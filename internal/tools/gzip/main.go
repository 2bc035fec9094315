// Gzip compresses its input. A version of Go writes the same bytes on every machine, which the programs
// of different systems do not.
//
// usage: gzip <FILE >FILE.gz
package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
)

func main() {
	w := gzip.NewWriter(os.Stdout)
	_, err := io.Copy(w, os.Stdin)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gzip:", err)
		os.Exit(1)
	}
}
