// Program failures plays every library in the faults in which some of them were seen to fail, and
// prints the results as one table. The servers are those of internal/fakeredis, whose clocks and
// messages fail on command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

func main() { report(context.Background(), os.Stdout, scenarios, columns()) }

// A column is one library in the table.
type column struct {
	head  string
	kinds []adapters.Kind // several ways of using this library share a column
}

// columns returns this library and the peers, in the ways of using them that differ here.
func columns() []column {
	const failFast = adapters.Yardstick + ", fail fast"
	list := []column{{head: adapters.Ours}}
	for _, k := range adapters.Kinds() {
		switch {
		case k.Limit:
			continue
		case strings.HasPrefix(k.Name, adapters.Ours):
			list[0].kinds = append(list[0].kinds, k)
			continue
		}
		list = append(list, column{shortened(k.Name), []adapters.Kind{k}})
		if k.Name == failFast {
			k = adapters.RedsyncWith(adapters.Yardstick+", SetNXOnExtend", redsync.WithSetNXOnExtend())
			list = append(list, column{shortened(k.Name), []adapters.Kind{k}})
		}
	}
	return list
}

// shortened returns the name without the beginning that it shares with the column before.
func shortened(name string) string {
	if option, found := strings.CutPrefix(name, adapters.Yardstick+", "); found {
		return "… " + option
	}
	return name
}

// report prints the table, with one scenario a row, and then what each library did that failed.
func report(ctx context.Context, out io.Writer, scenarios []scenario, columns []column) {
	var head, line, details strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&head, " %s |", c.head)
		line.WriteString("---|")
	}
	write := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	write("| scenario ([hazard](hazards.md)) |%s\n|---|%s\n", &head, &line)
	for i, s := range scenarios {
		write("| %d. %s%s (%s) |", i+1, strings.ToUpper(s.name[:1]), s.name[1:], s.hazard)
		for _, c := range columns {
			cell := "–" // no kind of the column can play the scenario
			for _, k := range c.kinds {
				v, err := perform(ctx, s, k)
				switch {
				case errors.Is(err, errDoesNotApply):
					continue
				case err != nil:
					v = ill("error", "cannot play the scenario: %v", firstLine(err))
				case v.well && cell == "–":
					cell = "ok"
				}
				if !v.well {
					cell = "**" + v.label + "**"
					fmt.Fprintf(&details, "%d. %s: %s\n", i+1, k.Name, v.said)
				}
			}
			write(" %s |", cell)
		}
		write("\n")
	}
	write("\n%s", &details)
}
