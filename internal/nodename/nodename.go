// Package nodename makes the default names of nodes. Clients of the same locks must give a node the
// same name, because the restart guard compares names. So a default name depends on neither the
// order of a list of addresses nor the user.
package nodename

import (
	"slices"
	"strconv"
)

// Master returns the default name of a single master.
func Master(address string, database int) string {
	return address + "/" + strconv.Itoa(database)
}

// Sentinels returns the default name of the master that Sentinels watch.
func Sentinels(master string, addresses []string, database int) string {
	return master + "@" + Master(first(addresses), database)
}

// Cluster returns the default name of a Redis Cluster.
func Cluster(addresses []string) string { return "cluster@" + first(addresses) }

func first(addresses []string) string {
	if len(addresses) == 0 {
		return ""
	}
	return slices.Min(addresses)
}
