// Package doctor examines the nodes of a Locker. [Diagnose] reports what each node is, with findings and their
// remedies, also about its restart guard and about all nodes together. [Admit] lets the nodes of a new
// deployment under the restart guard vote at once.
package doctor

// The files of the package.
//
//	diagnose.go           Diagnose
//	admit.go              Admit
//	report.go, json.go    the report
//	guard.go              findings about a node's guard
//	compare.go            findings about all nodes together
