// Package stage is the nodes of the demo, and those inside this process of --embedded.
//
//	stage.go              the nodes, clients of them, and failures
//	cuttable_dialer.go    a dialer whose connections can be cut
package stage
