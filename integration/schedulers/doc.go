// Package schedulers tests contrib/schedlock on real Redis servers: schedulers whose clocks differ,
// and the programs of its README in several processes.
package schedulers
