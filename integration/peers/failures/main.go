// Program failures puts every library to the faults in which some of them were seen to fail, and prints what each did as a table. The masters
// are those of internal/fakeredis, whose clocks and messages can be made to go wrong at will.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

func main() {
	report(context.Background())
}

// libraries are this one and the peers, in the ways of using them that differ here.
func libraries() []adapters.Kind {
	var all []adapters.Kind
	for _, k := range adapters.Kinds() {
		if !k.Limit {
			all = append(all, k)
		}
	}
	return append(all, adapters.RedsyncWith("redsync, redigo, WithSetNXOnExtend", redsync.WithSetNXOnExtend()))
}

func report(ctx context.Context) {
	for _, s := range scenarios {
		fmt.Printf("\n**%s** (%s): %s.\n\n| library | | |\n|---|---|---|\n", strings.ToUpper(s.name[:1])+s.name[1:], s.hazard, s.right)
		for _, k := range libraries() {
			v, err := perform(ctx, s, k)
			switch {
			case errors.Is(err, errDoesNotApply):
				continue
			case err != nil:
				v = verdict{false, "can't be put to it: " + short(err)}
			}
			fmt.Printf("| %s | %s | %s |\n", k.Name, map[bool]string{true: "well", false: "**fails**"}[v.well], v.said)
		}
	}
}
