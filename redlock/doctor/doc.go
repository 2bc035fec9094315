// Package doctor examines the nodes of a Locker (diagnose.go) and admits the nodes of a new deployment under
// the restart guard (admit.go). Its report (report.go, json.go) says what each node is, with findings and
// their remedies: about each node's guard (guard.go), and about all nodes together (compare.go).
package doctor
