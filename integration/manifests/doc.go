// Package manifests has the tests of deploy/: the manifests for Kubernetes and the units of systemd are
// what they say, without a cluster and without Docker.
//
// It renders each kustomization, decodes it strictly into the types of k8s.io/api, and checks what the
// promises of the library rest on. Each check is shown to fail on manifests that lack what it asks for.
//
// It is a separate module, so that no other one gets the modules of Kubernetes. older.mod is the same
// with an older version of k8s.io/api: make test-manifests-older
//
// The files are:
//
//	render_test.go      kustomizations, and objects that they make
//	files_test.go       each file is named, and each name is a file
//	rules_test.go       what each kustomization must have, and how a check fails
//	secrets_test.go     what deploy/kubernetes/secrets prints
//	units_test.go       the units of systemd
package manifests
