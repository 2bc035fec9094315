// Package examine asks the servers of a node what the doctor wants to know of them, over connections of its
// own: examine.go asks one node, rights.go tries rights, scan.go looks for locks, and admit.go marks a node.
// question.go has what is asked, diagnosis.go the answers, and finding.go a conclusion. cluster.go and findings.go
// draw the conclusions about one node, and unreachable.go those from an error. state.go names the states of a marker.
package examine
