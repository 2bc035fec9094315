// Package deployed has the tests of deploy/kubernetes on real servers: three containers with the
// configuration, the users and the arguments of the manifests have the names of the Services on a network of
// Docker. The clients are those of the manifests, too: the command, in an image of deploy/Dockerfile, in
// containers that look these names up.
//
// The files are:
//
//	fleet_test.go      the servers and clients of the manifests, in containers
//	deployed_test.go   what holds for them: they are fit, keep locks, are found again, and know who may what
package deployed
