//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/load"
)

// A fault is what happens to the last server.
type fault string

const (
	healthy    fault = ""
	frozen     fault = "frozen"      // it is stopped when all adapters are connected
	dead       fault = "dead"        // it is killed when all adapters are connected
	blackholed fault = "black-holed" // from the start it accepts connections and never answers
)

// A workload is the work at which all adapters are measured.
type workload struct {
	name      string // for --only; the part before the first slash is its section in the document
	title     string
	servers   int // or Clusters
	masters   int // of each Cluster; 0: single servers
	fault     fault
	delay     time.Duration // in each direction between client and servers
	far       time.Duration // the same for the last process
	lacks     string        // the ACL rule that takes a right from the clients
	processes int
	load      load.Spec
	kinds     []string
	baselines []baseline
	rounds    int // the maximum
}

// A baseline is measured in turns with the adapters, at a variant of the workload. The
// adapters are compared with it. On a shared machine a measurement of some minutes before is no
// baseline.
type baseline struct {
	row, kind string
	vary      func(w *workload)
}

// A turn is one measurement of an adapter or of a baseline.
type turn struct {
	row, kind string
	of        workload
}

// turns returns the turns of one round. The baselines of an adapter follow it directly, and bare
// pipelining follows the first adapter, because others may take half a minute.
func (w workload) turns() (list []turn) {
	kinds := slices.DeleteFunc(slices.Clone(w.kinds), func(kind string) bool { return kind == adapters.Bare })
	for _, kind := range slices.Insert(kinds, min(1, len(kinds)), adapters.Bare) {
		if slices.Contains(w.kinds, kind) {
			list = append(list, turn{kind, kind, w})
		}
		for _, a := range w.baselines {
			if a.kind == kind {
				other := w
				a.vary(&other)
				list = append(list, turn{a.row, a.kind, other})
			}
		}
	}
	return list
}

// The names of the baselines' rows.
const (
	oursWell  = adapters.Ours + ", all well"
	bareWell  = adapters.Bare + ", all well"
	bareOfTwo = adapters.Bare + ", both of two servers" // a lock needs both if one of three is down
	bareAlone = adapters.Bare + ", 1 goroutine alone"   // without handoffs and waiting
)

func (w workload) section() string {
	section, _, _ := strings.Cut(w.name, "/")
	return section
}

// changesServers reports whether the workload needs servers of its own, because it or a baseline of it harms them, changes
// their users or needs Clusters.
func (w workload) changesServers() bool {
	return w.fault != healthy || w.masters > 0 || w.section() == rightsSection
}

const rightsSection = "rights"

const ms = time.Millisecond

// The adapters of the workloads. Each workload measures those whose result is useful there.
var (
	everybody = all(func(k adapters.Kind) bool { return k.Name != ours[1] })
	ours      = []string{
		adapters.Ours, adapters.Ours + ", async release", adapters.Ours + ", fencing", adapters.Ours + ", fencing and guard",
	}
	quorums = all(func(k adapters.Kind) bool { return !k.OneServer && !k.Limit && !slices.Contains(ours[1:], k.Name) })
	patient = quorums[:3] // the others do not begin before every server has answered
	queues  = all(func(k adapters.Kind) bool { return !k.Limit && !slices.Contains(ours[1:], k.Name) })
	distant = all(func(k adapters.Kind) bool { return !k.OneServer && !slices.Contains(ours[2:], k.Name) })
)

func all(which func(adapters.Kind) bool) (names []string) {
	for _, k := range adapters.Kinds() {
		if which(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// workloads returns all workloads, in the order of the document.
func workloads() []workload {
	return slices.Concat(uncontended(), opening(), faults(), contention(), herds(), waiting(), clusters(), rights(), services(), distance())
}

func uncontended() (list []workload) {
	for _, n := range []int{3, 5} {
		for _, g := range []int{1, 8, 64, 512} {
			list = append(list, workload{
				name:  free(n, g),
				title: fmt.Sprintf("%s, %d servers", goroutines(g), n), servers: n, rounds: 9,
				load: load.Spec{Shape: load.Uncontended, Goroutines: g, For: 500 * ms}, kinds: everybody,
			})
		}
	}
	return list
}

func opening() []workload {
	return []workload{{
		name: "opening", title: "a client is made, and acquires and releases one name", servers: 3, rounds: 9, kinds: quorums,
		load: load.Spec{Shape: load.Opening, Goroutines: 1, For: 500 * ms},
	}}
}

func faults() (list []workload) {
	well := func(w *workload) { w.fault = healthy }
	both := func(w *workload) { w.fault, w.servers = healthy, 2 }
	for _, f := range []fault{frozen, dead, blackholed} {
		for _, g := range []int{1, 64} {
			kinds := quorums
			if f == blackholed {
				kinds = patient
			}
			list = append(list, workload{
				name:  ill(f, g),
				title: fmt.Sprintf("one of three %s, %s", f, goroutines(g)), servers: 3, fault: f, rounds: 9,
				load: load.Spec{Shape: load.Uncontended, Goroutines: g, For: 500 * ms}, kinds: kinds,
				baselines: []baseline{
					{oursWell, adapters.Ours, well},
					{bareWell, adapters.Bare, well},
					{bareOfTwo, adapters.Bare, both},
				},
			})
		}
	}
	return list
}

func contention() (list []workload) {
	lonely := func(w *workload) {
		w.processes, w.load.Goroutines, w.load.Pause = 1, 1, 0
	}
	for _, processes := range []int{1, 2} {
		for _, pause := range []time.Duration{0, 8 * ms} {
			between := "no pause"
			if pause > 0 {
				between = "8 ms"
			}
			list = append(list, workload{
				name:  fmt.Sprintf("one-name/processes=%d/pause=%v", processes, pause),
				title: fmt.Sprintf("16 goroutines in %s, 1 ms hold, %s between turns", processesOf(processes), between), servers: 3, rounds: 9,
				processes: processes, kinds: queues,
				load:      load.Spec{Shape: load.Contention, Goroutines: 16 / processes, Names: 1, Hold: ms, Pause: pause, For: time.Second},
				baselines: []baseline{{bareAlone, adapters.Bare, lonely}},
			})
		}
	}
	return append(list, workload{
		name: "eight-names", title: "64 goroutines, 8 names, 1 ms hold, no pause", servers: 3, rounds: 2, kinds: queues,
		load: load.Spec{Shape: load.Contention, Goroutines: 64, Names: 8, Hold: ms, For: 3 * time.Second},
	})
}

const herdServers = 3

// herds are many processes that contend for one name, as the pods of a service do.
func herds() (list []workload) {
	for _, n := range []int{2, 10, 50, 150} {
		list = append(list, workload{
			name: fmt.Sprintf("herd/processes=%d", n), title: fmt.Sprintf("%d processes of one goroutine, 5 ms hold, no pause", n), servers: herdServers, rounds: 1,
			processes: n, kinds: []string{adapters.Ours, adapters.Yardstick},
			load: load.Spec{Shape: load.Herd, Goroutines: 1, Names: 1, Hold: 5 * ms, For: 10 * time.Second},
		})
	}
	return append(list, workload{
		name: "herd/far", title: "two processes of 2 goroutines, one 1 ms and the other 40 ms away, 5 ms hold, no pause", servers: herdServers, rounds: 1,
		processes: 2, delay: ms / 2, far: 20 * ms, kinds: []string{adapters.Ours, adapters.Yardstick},
		load: load.Spec{Shape: load.Herd, Goroutines: 2, Names: 1, Hold: 5 * ms, For: 15 * time.Second},
	}, workload{
		name: "herd/crowd", title: "1,000 clients with connections of their own wait for one name, which is held for a minute and released once",
		servers: herdServers, rounds: 1, kinds: []string{adapters.Ours, adapters.Yardstick},
		load: load.Spec{Shape: load.Crowd, Goroutines: 1, Clients: 1000, For: time.Minute},
	})
}

func waiting() []workload {
	return []workload{
		{
			name: "hand-over", title: "two clients, one name, to and fro", servers: 3, rounds: 2, kinds: queues,
			load: load.Spec{Shape: load.Handoff, Goroutines: 1, For: 4 * time.Second},
		},
		{
			name: "waiters", title: "1,000 goroutines wait for one name", servers: 3, rounds: 1, kinds: queues,
			load: load.Spec{Shape: load.Waiters, Goroutines: 1000, For: 3 * time.Second},
		},
	}
}

// clusters are three Clusters of three masters each, beside single masters: nine, of which a lock needs five, and
// three, which leave the processors more time.
func clusters() []workload {
	single := func(n int) baseline {
		return baseline{baselineOf(n), adapters.Ours, func(w *workload) { w.servers, w.masters = n, 0 }}
	}
	all := []workload{
		{
			name: "clusters/goroutines=64", title: "64 goroutines, three Clusters of three masters", rounds: 3,
			load: load.Spec{Shape: load.Uncontended, Goroutines: 64, For: time.Second},
		},
		{
			name: "clusters/processes=2", title: "two processes of 4 goroutines on one name, no hold and no pause", rounds: 3, processes: 2,
			load: load.Spec{Shape: load.Contention, Goroutines: 4, Names: 1, For: 3 * time.Second},
		},
		{
			name: "clusters/processes=2/hold=2ms", title: "the same, 2 ms hold", rounds: 3, processes: 2,
			load: load.Spec{Shape: load.Contention, Goroutines: 4, Names: 1, Hold: 2 * ms, For: 3 * time.Second},
		},
		{
			name: "clusters/own", title: "10 goroutines with a name of its own each, 10 ms hold", rounds: 3,
			load: load.Spec{Shape: load.Herd, Goroutines: 10, Hold: 10 * ms, For: 3 * time.Second},
		},
		{
			name: "clusters/hand-over", title: "two clients, one name, to and fro", rounds: 1,
			load: load.Spec{Shape: load.Handoff, Goroutines: 1, For: 3 * time.Second},
		},
		{
			name: "clusters/waiters", title: "2,000 goroutines wait for one name", rounds: 1,
			load: load.Spec{Shape: load.Waiters, Goroutines: 2000, For: 3 * time.Second},
		},
	}
	for i := range all {
		all[i].servers, all[i].masters = 3, 3
		all[i].kinds, all[i].baselines = []string{adapters.Ours}, []baseline{single(9), single(3)}
	}
	return all
}

// baselineOf is the row of n single masters.
func baselineOf(n int) string { return fmt.Sprintf("%s, %d single masters", adapters.Ours, n) }

// lacks are rights that waiting needs, and the ACL rules that take them.
var lacks = [][2]string{
	{"publish", "-publish"}, {"subscribe", "-subscribe"}, {"pubsub numsub", "-pubsub|numsub"}, {"channels", "resetchannels"},
}

// without is the row of clients that lack a right.
func without(right string) string { return adapters.Ours + ", without " + right }

// rights are clients without one of the rights that waiting needs, beside clients that have all.
func rights() []workload {
	all := []workload{
		{
			name: rightsSection + "/processes=1", title: "one process of one goroutine acquires one name again and again, 1 ms hold",
			load: load.Spec{Shape: load.Herd, Goroutines: 1, Names: 1, Hold: ms, For: 3 * time.Second},
		},
		{
			name: rightsSection + "/processes=2", title: "two processes of 4 goroutines on one name, no hold and no pause", processes: 2,
			load: load.Spec{Shape: load.Herd, Goroutines: 4, Names: 1, For: 3 * time.Second},
		},
		{
			name: rightsSection + "/waiters", title: "2,000 goroutines wait for one name",
			load: load.Spec{Shape: load.Waiters, Goroutines: 2000, For: 3 * time.Second},
		},
		{
			name: rightsSection + "/hand-over", title: "two clients, one name, to and fro",
			load: load.Spec{Shape: load.Handoff, Goroutines: 1, For: 3 * time.Second},
		},
	}
	for i := range all {
		all[i].servers, all[i].rounds, all[i].kinds = herdServers, 1, []string{adapters.Ours}
		for _, lack := range lacks {
			all[i].baselines = append(all[i].baselines, baseline{without(lack[0]), adapters.Ours, func(w *workload) { w.lacks = lack[1] }})
		}
	}
	return all
}

// services are locks with what a service has beside them.
func services() (list []workload) {
	for _, g := range []int{1, 64} {
		list = append(list, workload{
			name: fmt.Sprintf("service/metrics/goroutines=%d", g), title: goroutines(g) + ", with and without metrics", servers: 3, rounds: 9,
			load: load.Spec{Shape: load.Uncontended, Goroutines: g, For: 500 * ms}, kinds: []string{adapters.Ours, adapters.Measured},
		})
	}
	return append(list, workload{
		name: besideHeld, title: "64 goroutines acquire and release 1,000 names a second, beside 10,000 locks of 30 s and alone", servers: 3, rounds: 9,
		load: load.Spec{Shape: load.Uncontended, Goroutines: 64, Every: 64 * ms, For: 4 * time.Second}, kinds: []string{adapters.Ours, adapters.Holding},
	})
}

const besideHeld = "service/held"

func distance() (list []workload) {
	for _, g := range []int{1, 64} {
		list = append(list, workload{
			name:  fmt.Sprintf("distance/goroutines=%d", g),
			title: goroutines(g) + ", 3 servers, 1 ms away", servers: 3, delay: ms / 2, rounds: 2,
			load: load.Spec{Shape: load.Uncontended, Goroutines: g, For: 2 * time.Second}, kinds: distant,
		})
	}
	return list
}

func goroutines(n int) string {
	if n == 1 {
		return "1 goroutine"
	}
	return fmt.Sprintf("%d goroutines", n)
}

func processesOf(n int) string {
	if n == 1 {
		return "one process"
	}
	return "two processes"
}
