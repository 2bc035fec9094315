// Package diagnose examines nodes, and writes a doctor.Report about them. It also admits the nodes of
// a new deployment under the restart guard.
package diagnose
